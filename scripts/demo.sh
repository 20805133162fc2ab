#!/bin/sh
# Run both examples on copies, so that the originals stay as they are and every demo starts from nothing.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
demo=build/demo

bold='' plain=''
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi

show() {
  printf '\n%s$ frazil' "$bold"
  for word in "$@"; do case $word in *[!a-zA-Z0-9_./-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac; done
  printf '%s\n' "$plain"
  frazil "$@"
}

rm -rf "$demo"
mkdir -p "$demo"
cp -R examples/products examples/airbnb "$demo/"

show run "$demo/products"
show query 'select product_id, product_name, quantity_available, last_update_time from marts.products order by 1' "$demo/products"
show query 'select product_id, quantity_available, valid_from, valid_to, is_current, is_deleted from marts.products_history where product_id in (102, 103) order by 1, 3' "$demo/products"
show run "$demo/airbnb"
show query 'select id, name, since, location_city, location_country from marts.hosts order by id' "$demo/airbnb"
show query 'select rule, reason, raw from silver.hosts_quarantine' "$demo/airbnb"
show check "$demo/airbnb"

cat <<END

Both lakes are real. Look on (put .venv/bin on your PATH, or write it before the command):
  frazil ui $demo/airbnb                     all of it in your browser
  frazil status $demo/airbnb                 where every table stands
  frazil key hosts 1006 -p $demo/airbnb      why a row looks as it does
  cp $demo/airbnb/late/* $demo/airbnb/landing/airbnb_db/public/hosts_demo/
  frazil plan $demo/airbnb                   a late file came: what will a run do?
  frazil run $demo/airbnb
  frazil init my_lake                        a project of your own
END
