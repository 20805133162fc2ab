{# Columns out of a JSON text: frazil.flatten_json('new_data', {'order_id': 'bigint', 'total': 'decimal(12,2)'}).
   A field that is absent, or null, is NULL. Values are cast: what does not fit fails the model. #}
{% macro flatten_json(column, fields) -%}
{%- for name, type in fields.items() %}
cast({{ adapter.dispatch('json_text', 'frazil')(column, name) }} as {{ type }}) as {{ adapter.quote(name) }}{{ ',' if not loop.last }}
{%- endfor -%}
{%- endmacro %}

{% macro default__json_text(column, name) -%}
json_extract_scalar({{ column }}, '$["{{ name }}"]')
{%- endmacro %}

{% macro spark__json_text(column, name) -%}
get_json_object({{ column }}, '$[\'{{ name }}\']')
{%- endmacro %}
