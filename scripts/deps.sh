#!/usr/bin/env bash
# Installs the packages that the tests need, where they are missing. Without the right to install it
# names them and fails. When all are there, it needs no network.
set -euo pipefail

# gcc and the C library's headers are for the race detector.
packages=(gcc libc6-dev postgresql pgbouncer influxdb victoria-metrics)

missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

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
