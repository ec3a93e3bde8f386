{{ config(materialized='ephemeral') }}
select l.order_id, l.product_id, l.quantity, l.quantity * p.price as amount
from {{ ref('stg_order_lines') }} l
join {{ ref('stg_products') }} p on p.product_id = l.product_id
