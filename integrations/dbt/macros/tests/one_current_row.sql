{# A key has at most one current version. #}
{% test one_current_row(model, keys) %}
select {{ frazil.names(keys, 'h') }}, count(*) as current_rows from {{ model }} h
where h.is_current group by {{ frazil.names(keys, 'h') }} having count(*) > 1
{% endtest %}
