{{ config(materialized='view') }}
select customer_id, name, region from {{ ref('customers') }}
