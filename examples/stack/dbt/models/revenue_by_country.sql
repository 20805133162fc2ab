select country, count(*) as orders, sum(quantity * unit_price) as revenue
from {{ source('marts', 'orders') }}
where status <> 'cancelled'
group by country
