select product_id, product, category, price from {{ ref('products') }}
