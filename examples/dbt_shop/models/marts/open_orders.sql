select order_id, customer_id, ordered_on from {{ ref('stg_orders') }} where status = 'open'
