{{ config(materialized='table', file_format='delta') }}
select r.region, r.revenue, n.customers
from {{ ref('revenue_by_region') }} r
join {{ ref('regions') }} n on n.region = r.region
