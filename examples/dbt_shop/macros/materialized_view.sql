{#-- dbt takes a built-in materialization from a package only where the project says so. #}
{% materialization materialized_view, adapter='spark' %}
  {{ return(streamtable.materialization_stream_table_spark()) }}
{% endmaterialization %}
