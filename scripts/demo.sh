#!/bin/sh
# Run both examples on copies, so that the originals stay as they are and every demo starts from nothing.
set -eu
cd "$(dirname "$0")/.."
frazil=.venv/bin/frazil
demo=build/demo

say() { printf '\n\033[1m$ frazil %s\033[0m\n' "$1"; }

rm -rf "$demo"
mkdir -p "$demo"
for example in products airbnb; do
  cp -R "examples/$example" "$demo/"
  say "run $demo/$example"
  "$frazil" run "$demo/$example"
  say "query $demo/$example 'show tables'"
  "$frazil" query "$demo/$example" 'show tables'
done

cat <<END

Both lakes are real: look around, add a file under landing/ and run again.
  .venv/bin/frazil status $demo/airbnb
  .venv/bin/frazil query  $demo/airbnb 'select * from marts.hosts limit 5'
  .venv/bin/frazil check  $demo/airbnb
END
