{% materialization frazil_history, default, supported_languages=['sql'] %}
  {%- set target = this.incorporate(type='table') -%}
  {%- set existing = load_relation(this) -%}
  {%- set how = frazil.settings(sql) -%}
  {%- set untracked = (how['keys'] + how.sequence_by + [how.arrived_by] + config.get('track_history_except_columns', [])) | map('lower') | list -%}
  {%- set tracked = [] -%}
  {%- for column in how.columns if column | lower not in untracked -%}{%- do tracked.append(column) -%}{%- endfor -%}
  {%- set shown = how.columns + ['valid_from', 'valid_to', 'is_current', 'is_deleted', '_cdc_arrived'] -%}
  {%- set since = none if existing is none or should_full_refresh() else target -%}
  {%- set touched = frazil.arrived(sql, how, since) -%}
  {%- set versions = frazil.versions(touched, how['keys'], how.sequence_by, how.delete_when, how.columns, tracked) -%}
  {{ run_hooks(pre_hooks) }}
  {%- if since is none -%}
    {% call statement('main') %}{{ frazil.create(target, versions) }}{% endcall %}
  {%- else -%}
    {%- do frazil.fit(target, versions) -%}
    {# A late change can take a version away: what the target has of a touched key, and the fold has not, goes in the same commit. #}
    {%- set source -%}
select {{ frazil.names(shown, 'n') }}, false as _cdc_gone from ({{ versions }}) n
union all
select {{ frazil.names(shown, 'o') }}, true as _cdc_gone from {{ target }} o
where exists (select 1 from ({{ touched }}) k where {{ frazil.equal(how['keys'], 'k', 'o') }})
  and not exists (select 1 from ({{ versions }}) w where {{ frazil.equal(how['keys'] + ['valid_from'], 'w', 'o') }})
    {%- endset -%}
    {% call statement('main') %}{{ frazil.merge(target, source, how['keys'] + ['valid_from'], shown, '_cdc_gone') }}{% endcall %}
  {%- endif -%}
  {% do persist_docs(target, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}
