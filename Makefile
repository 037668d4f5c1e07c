# Everything here needs Go and make, and nothing else. "make" alone lists what there is.

GO         ?= go
GEN         = $(GO) run ./internal/gen
CHAPTERS   := $(sort $(foreach dir,$(wildcard [0-9][0-9]-*/lock.go),$(firstword $(subst -, ,$(dir)))))
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help tour test $(CHAPTERS) break diff explore breakit exercise try solution lift demo bench gen check lint race stress

help:
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r target text; do printf '%-14s%s\n' "$$target" "$$text"; done
	@printf '%-14s%s\n' 'make $(firstword $(CHAPTERS))' 'the stories of one chapter; there are $(CHAPTERS)'

tour: ## start here: each lock that breaks, then the one that holds (CH=03: only that chapter)
	@$(GEN) tour $(CH)

test: ## run all tests; those on real servers skip if there is no redis-server
	$(GO) test ./...

$(CHAPTERS):
	@$(GEN) story $@

break: ## judge the lock before by this chapter's tests, and see it FAIL: make break CH=03
	@$(GEN) break $(CH)

diff: ## what a chapter changes in lock.go: make diff CH=03
	@$(GEN) diff $(CH)

explore: ## go through every order of the locks' commands, and show the shortest that breaks each lock
	@$(GEN) explore

breakit: ## make each change that the chapters list, and check what fails (CH=03: one chapter; N=1: show one change)
	@$(GEN) breakit $(CH) $(N)

exercise: ## write a lock yourself: puts a copy with gaps into _exercise (CH=03)
	@$(GEN) exercise $(CH)

try: ## judge what you have written by the chapter's tests: make try CH=03
	@$(GEN) try $(CH)

solution: ## how the chapter's lock differs from yours: make solution CH=03
	@$(GEN) solution $(CH)

lift: ## copy a lock into your module, with a smoke test: make lift CH=04 DEST=../shop/lock PKG=lock
	@$(GEN) lift "$(CH)" "$(DEST)" "$(PKG)"

demo: ## ten processes sell 100 items while real Redis servers fail: which lock oversells?
	@$(GO) run ./07-failover-demo/demo

bench: ## measure locks 03 to 07 beside three libraries, on real servers, in three minutes; writes docs/benchmarks/README.md
	@cd docs/benchmarks && $(GO) run .

gen: ## rewrite the generated blocks in the READMEs
	$(GEN)

check: ## show which generated blocks have drifted
	$(GEN) -check

lint: ## gofmt, go vet for three systems, staticcheck
	@files="$$(gofmt -l [0-9][0-9]-* docs internal)"; test -z "$$files" || { echo "not formatted:"; echo "$$files"; exit 1; }
	$(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	cd docs/benchmarks && $(GO) vet . && $(GO) run $(STATICCHECK) .

race: ## run all tests with the race detector
	$(GO) test -race ./...

stress: ## run all tests twenty times, in random order, with the race detector
	$(GO) test -race -count=20 -shuffle=on ./...
