# Tailrace. `make help` lists the targets.

GO      ?= go
TOOLS   := -modfile=tools/go.mod
PKGS    ?= ./...
COUNT   ?= 1
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
export CGO_ENABLED ?= 0

.PHONY: help demo build test soak lint bench fuzz generate verify cross deps clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## watch the main job: points come in, are durable, and arrive in a database
	./tailrace demo

build: ## build ./tailrace for this machine
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o tailrace .

test: deps ## install what the tests need, run everything with the race detector at reduced counts
	@echo "test: reduced counts; 'make soak' runs the same tests at full counts"
	CGO_ENABLED=1 $(GO) test -race -count=$(COUNT) -timeout 20m $(PKGS)
	cd examples/embed && $(GO) vet ./... && CGO_ENABLED=1 $(GO) test -race -count=$(COUNT) ./...

soak: deps ## the same tests at full counts; takes hours
	@echo "soak: full counts"
	CGO_ENABLED=1 TAILRACE_SOAK=1 $(GO) test -race -count=$(COUNT) -timeout 12h -v $(PKGS)

lint: ## run the linters
	$(GO) vet $(PKGS)
	$(GO) tool $(TOOLS) golangci-lint run $(PKGS)
	cd examples/embed && $(GO) vet ./... && $(GO) tool -modfile=../../tools/go.mod golangci-lint run ./...

bench: deps ## print ratios against ceilings measured in the same run
	$(GO) test -run '^$$' -bench . -benchmem $(PKGS)

fuzz: ## run every fuzz test for FUZZTIME (default 30s each)
	scripts/fuzz.sh $(or $(FUZZTIME),30s)

generate: ## write generated code anew
	$(GO) tool $(TOOLS) wire gen .

verify: ## fail if generated code or go.mod is not up to date
	scripts/verify.sh

cross: ## build for the other platforms, without cgo, into dist/
	scripts/cross.sh '$(LDFLAGS)'

deps: ## install the Debian packages that the tests need (root or sudo)
	@scripts/deps.sh

clean: ## remove what was built
	rm -rf tailrace dist
