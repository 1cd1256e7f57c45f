#!/usr/bin/env bash
# Installs the packages that the tests need, where they are missing, and fetches the PostgreSQL servers that
# Debian does not have. Without the right to install it names the packages and fails. When all is there,
# it needs no network.
set -euo pipefail

# gcc and the C library's headers are for the race detector, prometheus for its promtool; influxdb and
# victoria-metrics are remotes.
packages=(gcc libc6-dev postgresql pgbouncer prometheus influxdb victoria-metrics)

case $0 in
*/*) servers=${0%/*}/postgres.sh ;;
*) servers=./postgres.sh ;;
esac
if ! command -v npm >/dev/null && ! "$BASH" "$servers" --check 2>/dev/null; then
	packages+=(npm) # fetches them
fi

missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exec "$BASH" "$servers"

if ! command -v apt-get >/dev/null; then
	echo "deps: this machine has no apt-get; install the equivalents of: ${missing[*]}" >&2
	exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null || { ! sudo -n true 2>/dev/null && [ ! -t 0 ]; }; then
		echo "deps: the tests need these packages: ${missing[*]}" >&2
		echo "deps: install them as root: apt-get install --no-install-recommends ${missing[*]}" >&2
		exit 1
	fi
	sudo=(sudo)
fi
echo "deps: installing ${missing[*]}"
"${sudo[@]}" apt-get update -q
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
exec "$BASH" "$servers"
