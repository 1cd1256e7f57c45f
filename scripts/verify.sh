#!/usr/bin/env bash
# Fails if generated code, go.mod or go.sum are not what their sources make of them.
set -euo pipefail

status=0
if ! go tool -modfile=tools/go.mod wire diff . ; then
	echo "verify: wire_gen.go is out of date; run 'make generate'" >&2
	status=1
fi
for dir in . examples/embed; do
	if ! (cd "$dir" && go mod tidy -diff); then
		echo "verify: $dir/go.mod is not tidy; run 'go mod tidy' there" >&2
		status=1
	fi
done
if ! (cd examples/embed && go vet ./...); then
	echo "verify: examples/embed does not build" >&2
	status=1
fi
exit $status
