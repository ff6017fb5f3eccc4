#!/usr/bin/env bash
# Runs the tools that find mistakes without a tracer: vet, staticcheck, govulncheck, checkptr,
# the address and the memory sanitizer, clang's analyzer, and the linters of scripts and of CI's
# workflow. The race detector and valgrind run with the tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh

actionlint=github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.7.0
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.1.4

command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
need gcc=gcc clang=clang shellcheck=shellcheck /usr/include/libelf.h=libelf-dev
resources=$(clang -print-resource-dir) # of clang 14: .../lib/clang/14.0.6
version=$(basename "$resources")
need "$resources/include/sanitizer/msan_interface.h=libclang-rt-${version%%.*}-dev"

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
# shellcheck source=scripts/lib/check.sh
. scripts/lib/check.sh

formatted() {
	local list
	list=$(gofmt -l .)
	[ -z "$list" ] || { echo "$list"; return 1; }
}

# in_module DIRECTORY COMMAND... runs it in the module in that directory.
in_module() (cd "$1" && shift && "$@")

# govulncheck's list of vulnerabilities is on the internet: a machine without internet is no
# failure.
vulnerabilities() {
	local status=0
	check "govulncheck builds" env GOBIN="$temp" go install $govulncheck
	timeout 300 "$temp/govulncheck" ./... >"$temp/vulnerabilities" 2>&1 || status=$?
	if [ $status -eq 0 ]; then
		echo "ok govulncheck"
		passed=$((passed + 1))
	elif [ $status -eq 124 ]; then
		echo "skip govulncheck: it has waited for five minutes"
	elif grep -q 'fetching vulnerabilities' "$temp/vulnerabilities"; then
		echo "skip govulncheck: $(grep 'fetching vulnerabilities' "$temp/vulnerabilities")"
	else
		sed 's/^/# /' "$temp/vulnerabilities"
		echo "not ok govulncheck"
		failed=$((failed + 1))
	fi
}

# sanitized PACKAGE: its tests, linked with the address sanitizer. A test binary
# that go test runs itself has no symbols, by which to know the leak below.
sanitized() {
	CC=gcc go test -asan -c -o "$temp/test" "$1"
	# cgosymbolizer, which only tests use, never frees the program's name; the
	# number is made of its import path.
	echo 'leak:_cgo_16071bd81a3c_Cfunc__Cmalloc' >"$temp/known"
	(cd "$1" && LSAN_OPTIONS=suppressions=$temp/known "$temp/test" -test.short)
}

analyzed() {
	local source
	for source in cstapsdt/*.c; do
		clang --analyze --analyzer-output text -std=c11 -o "$temp/analysis" "$source"
	done >"$temp/analyzed" 2>&1
	cat "$temp/analyzed"
	[ ! -s "$temp/analyzed" ]
}

check "gofmt" formatted
for cgo in 1 0; do
	export CGO_ENABLED=$cgo
	check "go vet, CGO_ENABLED=$cgo" go vet ./...
	check "staticcheck, CGO_ENABLED=$cgo" go run $staticcheck ./...
done
unset CGO_ENABLED
check "go vet, internal/test" in_module internal/test go vet ./...
for module in internal/test cmd/stapsdt instrument/{grpc,otel}probe; do check "staticcheck, $module" in_module $module go run $staticcheck ./...; done
vulnerabilities
check "checkptr" go test -short -gcflags=all=-d=checkptr . ./internal/call ./internal/region ./internal/image ./cstapsdt
for package in . ./cstapsdt ./internal/test/notes; do
	check "address sanitizer, $package" sanitized "$package"
done
check "memory sanitizer" env CC=clang go test -short -msan .
check "clang --analyze" analyzed
check "shellcheck" shellcheck -x -S warning -s bash scripts/*.sh scripts/lib/*.sh .ci/run
check "actionlint" go run $actionlint
check "shellcheck, cstapsdt/tests" shellcheck -S error -s sh cstapsdt/tests/*.sh

verdict
