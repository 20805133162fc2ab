{# No version of a key begins before the one before it ends; none ends before it begins. #}
{% test no_overlap(model, keys) %}
select * from (
  select {{ frazil.names(keys, 'h') }}, h.valid_from, h.valid_to,
    lead(h.valid_from) over (partition by {{ frazil.names(keys, 'h') }} order by h.valid_from, case when h.valid_to is null then 1 else 0 end, h.valid_to) as next_from
  from {{ model }} h
) v
where v.valid_to < v.valid_from or (v.next_from is not null and (v.valid_to is null or v.valid_to > v.next_from))
{% endtest %}
