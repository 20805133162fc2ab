{% materialization frazil_current, default, supported_languages=['sql'] %}
  {%- set target = this.incorporate(type='table') -%}
  {%- set existing = load_relation(this) -%}
  {%- set how = frazil.settings(sql) -%}
  {%- set soft = config.get('deletes', 'hard') == 'soft' -%}
  {%- set shown = how.columns + (['is_deleted', 'deleted_at'] if soft else []) + ['_cdc_arrived'] -%}
  {%- set since = none if existing is none or should_full_refresh() else target -%}
  {%- set latest = frazil.latest(frazil.arrived(sql, how, since), how['keys'], how.sequence_by, how.delete_when, how.columns) -%}
  {%- set living = 'select ' ~ frazil.names(shown, 'f') ~ ' from (' ~ latest ~ ') f' ~ ('' if soft else ' where not f.is_deleted') -%}
  {{ run_hooks(pre_hooks) }}
  {%- if since is none -%}
    {% call statement('main') %}{{ frazil.create(target, living) }}{% endcall %}
  {%- else -%}
    {%- do frazil.fit(target, living) -%}
    {% call statement('main') %}{{ frazil.merge(target, latest, how['keys'], shown, none if soft else 'is_deleted') }}{% endcall %}
  {%- endif -%}
  {% do persist_docs(target, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}
