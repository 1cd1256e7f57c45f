#!/usr/bin/env bash
# Runs every fuzz test of the module, one after the other, each for the time given.
set -euo pipefail

go list ./... | while read -r package; do
	go test -list '^Fuzz' "$package" | { grep '^Fuzz' || true; } | while read -r name; do
		echo "fuzz: $package $name"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "$1" "$package"
	done
done
