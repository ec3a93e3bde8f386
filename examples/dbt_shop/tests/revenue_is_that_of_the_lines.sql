select * from (
  select (select sum(amount) from {{ ref('order_totals') }}) as of_orders, (select sum(revenue) from {{ ref('revenue_by_product') }}) as of_products
) where of_orders <> of_products
