{# How both materializations write: the table as a whole the first time; afterwards one MERGE of the keys that were touched. #}

{% macro settings(sql) %}
  {%- set keys = config.require('keys') -%}
  {%- set sequence_by = config.require('sequence_by') -%}
  {%- set arrived_by = config.require('arrived_by') -%}
  {%- set left_out = config.get('except_columns', []) | map('lower') | list -%}
  {%- set columns = [] -%}
  {%- for column in get_columns_in_query(sql) if column | lower not in left_out -%}{%- do columns.append(column) -%}{%- endfor -%}
  {{ return({'keys': keys, 'sequence_by': sequence_by, 'arrived_by': arrived_by, 'columns': columns,
             'delete_when': config.get('delete_when', "op = 'D'")}) }}
{% endmacro %}

{# The log with the moment of the newest arrival of each key; with a target, only of keys that something arrived for since its
   newest. Equal moments are taken again: to fold a key twice changes nothing, to miss a change would. #}
{% macro arrived(sql, how, target=none) %}
{%- set moment = adapter.quote(how.arrived_by) -%}
select l.*, max(l.{{ moment }}) over (partition by {{ frazil.names(how['keys'], 'l') }}) as _cdc_arrived from ({{ sql }}) l
{%- if target is not none %}
join ({{ frazil.touched(sql, how, target) }}) k on {{ frazil.equal(how['keys'], 'k', 'l') }}
{%- endif %}
{% endmacro %}

{# The keys that something arrived for. The condition is on the moment alone, so Iceberg skips the files of earlier loads. #}
{% macro touched(sql, how, target) %}
{%- set moment = adapter.quote(how.arrived_by) -%}
select distinct {{ frazil.names(how['keys'], 'n') }} from ({{ sql }}) n
where n.{{ moment }} >= coalesce((select max(t._cdc_arrived) from {{ target }} t), n.{{ moment }})
{% endmacro %}

{# Before a MERGE: a contract that is broken fails here, and fields that the log has since become columns; what was written
   before has NULL in them. #}
{% macro fit(target, folded) %}
  {%- if config.get('contract').enforced -%}{%- do get_assert_columns_equivalent(folded) -%}{%- endif -%}
  {%- set there = adapter.get_columns_in_relation(target) | map(attribute='name') | map('lower') | list -%}
  {%- set new = [] -%}
  {%- for column in get_column_schema_from_query(folded) if column.name | lower not in there -%}{%- do new.append(column) -%}{%- endfor -%}
  {%- if new -%}{%- do alter_relation_add_remove_columns(target, new, none) -%}{%- endif -%}
{% endmacro %}

{% macro merge(target, source, match, columns, gone) %}
merge into {{ target }} t using (
{{ source }}
) s on {{ frazil.equal(match, 't', 's') }}
{%- if gone %}
when matched and s.{{ gone }} then delete
{%- endif %}
when matched then update set {% for column in columns %}{{ adapter.quote(column) }} = s.{{ adapter.quote(column) }}{{ ', ' if not loop.last }}{% endfor %}
when not matched {{ 'and not s.' ~ gone if gone }} then insert ({% for column in columns %}{{ adapter.quote(column) }}{{ ', ' if not loop.last }}{% endfor %})
  values ({{ frazil.names(columns, 's') }})
{% endmacro %}

{% macro create(target, sql) %}{{ return(adapter.dispatch('create', 'frazil')(target, sql)) }}{% endmacro %}
{% macro default__create(target, sql) %}{{ return(create_table_as(false, target, sql)) }}{% endmacro %}
{% macro trino__create(target, sql) %}{{ return(create_table_as(false, target, sql, 'replace')) }}{% endmacro %}
