{# The state and the history that a change log amounts to. All are plain SELECTs, equal on Spark and Trino.

   changes: SQL of the log, one row a change, with every column of the row (not patches).
   keys: columns of the key; never NULL.
   sequence_by: columns of the order, the first of them the event time; together they must tell any two changes of a key apart.
   delete_when: a condition on a change.
   columns: what to keep of a change. #}

{# One row a key: its newest values, whether it is deleted, and when. A deleted key shows what it had before its delete;
   a key of which there are only deletes has no row. #}
{% macro latest(changes, keys, sequence_by, delete_when, columns) %}
select {{ frazil.names(columns, 's') }}, s._cdc_deleted as is_deleted,
  case when s._cdc_deleted then s._cdc_deleted_at end as deleted_at, s._cdc_arrived
from (
  select u.*,
    row_number() over (partition by {{ frazil.names(keys, 'u') }} order by u._cdc_deletes, {{ frazil.descending(sequence_by, 'u') }}) as _cdc_rank,
    first_value(u._cdc_delete) over (partition by {{ frazil.names(keys, 'u') }} order by {{ frazil.descending(sequence_by, 'u') }}) as _cdc_deleted,
    first_value(u.{{ adapter.quote(sequence_by[0]) }}) over (partition by {{ frazil.names(keys, 'u') }} order by {{ frazil.descending(sequence_by, 'u') }}) as _cdc_deleted_at
  from (
    select c.*, case when {{ delete_when }} then 1 else 0 end as _cdc_deletes, coalesce({{ delete_when }}, false) as _cdc_delete
    from ({{ changes }}) c
  ) u
) s
where s._cdc_rank = 1 and s._cdc_deletes = 0
{% endmacro %}

{# One row a version. Equal states that follow each other are one version, with the newest values of what is not tracked;
   of several upserts of a key at one event time the last stands; a delete closes, and a version that it ends where it
   began is empty. #}
{% macro versions(changes, keys, sequence_by, delete_when, columns, tracked) %}
{%- set by_key %}partition by {{ frazil.names(keys, 'c') }} order by {{ frazil.names(sequence_by, 'c') }}{% endset -%}
{%- set at = adapter.quote(sequence_by[0]) -%}
select {{ frazil.names(columns, 'v') }}, v._cdc_from as valid_from, v._cdc_to as valid_to, v._cdc_to is null as is_current,
  coalesce(v._cdc_closed, false) as is_deleted, v._cdc_arrived
from (
  select g.*,
    row_number() over (partition by {{ frazil.names(keys, 'g') }}, g._cdc_group order by {{ frazil.descending(sequence_by, 'g') }}) as _cdc_rank,
    min(g.{{ at }}) over (partition by {{ frazil.names(keys, 'g') }}, g._cdc_group) as _cdc_from,
    max(g._cdc_next_at) over (partition by {{ frazil.names(keys, 'g') }}, g._cdc_group) as _cdc_to,
    max(g._cdc_next_delete) over (partition by {{ frazil.names(keys, 'g') }}, g._cdc_group) as _cdc_closed
  from (
    select c.*, sum(c._cdc_begins) over ({{ by_key }} rows unbounded preceding) as _cdc_group,
      case when c._cdc_follower_begins = 1 then c._cdc_follower_at end as _cdc_next_at,
      case when c._cdc_follower_begins = 1 then c._cdc_follower_delete end as _cdc_next_delete
    from (
      select c.*, lead(c._cdc_begins) over ({{ by_key }}) as _cdc_follower_begins,
        lead(c.{{ at }}) over ({{ by_key }}) as _cdc_follower_at, lead(c._cdc_delete) over ({{ by_key }}) as _cdc_follower_delete
      from (
        select c.*,
          case
            when c._cdc_delete then 1
            when coalesce(lag(c._cdc_delete) over ({{ by_key }}), true) then 1
            {%- for column in tracked %}
            when lag(c.{{ adapter.quote(column) }}) over ({{ by_key }}) is distinct from c.{{ adapter.quote(column) }} then 1
            {%- endfor %}
            else 0
          end as _cdc_begins
        from (
          select c.*, lead(c.{{ at }}) over ({{ by_key }}) as _cdc_after_at, lead(c._cdc_delete) over ({{ by_key }}) as _cdc_after_delete
          from (select u.*, coalesce({{ delete_when }}, false) as _cdc_delete from ({{ changes }}) u) c
        ) c
        where c._cdc_after_delete is null or c._cdc_after_at <> c.{{ at }} or c._cdc_after_delete <> c._cdc_delete
      ) c
    ) c
  ) g
) v
where v._cdc_rank = 1 and not v._cdc_delete
{% endmacro %}

{# The columns, quoted, each with its table. #}
{% macro names(columns, table) -%}
{%- for column in columns %}{{ table }}.{{ adapter.quote(column) }}{{ ', ' if not loop.last }}{% endfor -%}
{%- endmacro %}

{% macro descending(columns, table) -%}
{%- for column in columns %}{{ table }}.{{ adapter.quote(column) }} desc{{ ', ' if not loop.last }}{% endfor -%}
{%- endmacro %}

{% macro equal(columns, left, right) -%}
{%- for column in columns %}{{ left }}.{{ adapter.quote(column) }} = {{ right }}.{{ adapter.quote(column) }}{{ ' and ' if not loop.last }}{% endfor -%}
{%- endmacro %}
