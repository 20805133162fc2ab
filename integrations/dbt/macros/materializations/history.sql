{% materialization frazil_history, default, supported_languages=['sql'] %}
  {%- set target = this.incorporate(type='table') -%}
  {%- set existing = load_relation(this) -%}
  {%- set how = frazil.settings(sql) -%}
  {%- set untracked = (how['keys'] + how.sequence_by + [how.arrived_by] + config.get('track_history_except_columns', [])) | map('lower') | list -%}
  {%- set tracked = [] -%}
  {%- for column in how.columns if column | lower not in untracked -%}{%- do tracked.append(column) -%}{%- endfor -%}
  {%- set shown = how.columns + ['valid_from', 'valid_to', 'is_current', 'is_deleted', '_cdc_arrived'] -%}
  {%- set since = none if existing is none or should_full_refresh() else target -%}
  {%- set versions = frazil.versions(frazil.arrived(sql, how, since), how['keys'], how.sequence_by, how.delete_when, how.columns, tracked) -%}
  {{ run_hooks(pre_hooks) }}
  {%- if since is none -%}
    {% call statement('main') %}{{ frazil.create(target, versions) }}{% endcall %}
  {%- else -%}
    {%- do frazil.fit(target, versions) -%}
    {# A late change can take a version away: what the target has of a touched key, and the fold has not, goes in the same commit. #}
    {%- set identity = how['keys'] + ['valid_from'] -%}
    {%- set source -%}
select {{ frazil.names(shown, 's') }}, s._cdc_gone from (
  select u.*, row_number() over (partition by {{ frazil.names(identity, 'u') }} order by u._cdc_gone) as _cdc_rank from (
    select {{ frazil.names(shown, 'f') }}, false as _cdc_gone from ({{ versions }}) f
    union all
    select {{ frazil.names(shown, 'o') }}, true as _cdc_gone from {{ target }} o
    join ({{ frazil.touched(sql, how, target) }}) k on {{ frazil.equal(how['keys'], 'k', 'o') }}
  ) u
) s where s._cdc_rank = 1
    {%- endset -%}
    {% call statement('main') %}{{ frazil.merge(target, source, identity, shown, '_cdc_gone') }}{% endcall %}
  {%- endif -%}
  {% do persist_docs(target, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}
