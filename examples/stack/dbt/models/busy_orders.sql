-- Orders that were updated many times: each version but the first is an update.
select order_id, count(*) - 1 as updates, max(valid_from) as last_updated_at
from {{ source('marts', 'orders_history_scd2') }}
group by order_id
having count(*) > 1
