#!/usr/bin/env bash
# The long run: everything that takes longer than scripts/test.sh may, depends on downloads, or measures time and memory.
#
#   scripts/long.sh                  runs all parts that need neither docker nor gigabytes, one after another
#   scripts/long.sh PART...          runs these parts
#   scripts/long.sh --list           lists the parts
#
# The parts from command to library run the tests that do more than in the gate: those that say so to internal/testenv, or ask whether
# tests are short. Each part appends its result to $STAPSDT_RESULTS, by default out/long.json, as a line of JSON, and the table of the results
# is printed at the end. `scripts/lib/results.py compare OLD NEW` compares two runs. Nothing is run again.
#
# What cannot be downloaded is not run, and says so: no change to this repository can mend it. A part in which something was not
# run fails only if the same was not run the last time either.
set -euo pipefail
cd "$(dirname "$0")/.."

# Those after the empty line are run only by name.
parts="
command         the command's and the exporter's tests: hostile users, storms, budgets
process         the library in processes: system calls that fail, forks, the law, limits
docs            the guides, functions of interpreters, bindings of other languages, the page in a browser
fleet           Prometheus, a collector, Grafana's types
foreign         the tests of other modules with our probes, Debian's packages, a module proxy
library         everything else: the packages of the library and of the command
race            the short tests with the race detector, but those of the gate
builds          the short tests without cgo, with each build tag, and without optimization
versions        the short tests with the oldest and the newest Go
c               the C library: sanitizers, valgrind, arm64, the wrappers of other languages
architectures   the tests that need no tracer on every architecture, emulated
lint            staticcheck, govulncheck, checkptr, sanitizers, linters of scripts and workflows
kernels         other kernels, under qemu
lockdown        each verb on kernels that are locked down, under qemu
packages        Debian packages, a release made twice, builds with and without libelf
soak            what was fired equals what was seen, for a while
fresh           README's two commands, on machines that have only Go, git and gcc

docker          the images and the commands of the guides on containers (needs a docker daemon)
tracers         every tracer, with those that need headers or modules of the kernel (3 GB)
kubernetes      the manifests, and kubectl stapsdt, on a cluster of two nodes (3 GB)
"

names() { awk '$1 { print $1 }' <<<"$parts"; }
mapfile -t default < <(awk 'NR > 1 && !$1 { exit } $1 { print $1 }' <<<"$parts")

[ "${1:-}" != --list ] || { sed '/^$/d' <<<"$parts"; exit; }
for part; do
	names | grep -qx -e "$part" || { echo "long.sh: unknown part $part; use one of:" "$(names | tr '\n' ' ')" >&2; exit 2; }
done
[ $# -gt 0 ] || set -- "${default[@]}"

command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh
# shellcheck source=scripts/lib/raced.sh
. scripts/lib/raced.sh
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
export STAPSDT_RESULTS=${STAPSDT_RESULTS:-$PWD/out/long.json}
export STAPSDT_COUNTS=$temp/counts STAPSDT_NOT_RUN=$temp/notrun STAPSDT_FIGURES=$temp/figures
results() { scripts/lib/results.py "$@"; }

# steps COMMAND... runs the commands, each of them a string, in shells of their own that stop at the first failure. The
# status is 1 if one failed, or 75 if something could not be fetched.
steps() {
	local step status result=0
	for step; do
		printf '\n-- %s\n' "$step"
		set +e # a condition would take set -e away from the step
		(set -e; eval "$step")
		status=$?
		case $status in
		0) ;;
		75) [ $result -ne 0 ] || result=75 ;;
		*) result=1 ;;
		esac
	done
	return $result
}

# tested ARGUMENT... runs go test, as many packages at a time as pays off where most tests wait.
tested() { go test -json -shuffle=on -timeout 30m -p $(($(nproc) + 1)) "$@" | results tally; }

# short ARGUMENT... runs the short tests.
short() { tested -short "$@"; }

# beyond PACKAGE... runs the tests that do more here than in the gate.
beyond() { tested -run "$(go list -f '{{.Dir}}' "$@" | scripts/lib/longtests.py)" "$@"; }

# The packages of each part.
command_packages=(./internal/test/command/...)
process_packages=(./internal/test/{process,arguments,law,kernels,sandbox}/...)
docs_packages=(./internal/test/{docs,functions,gofunctions,languages,browser}/...)
fleet_packages=(./internal/test/fleet/...)
foreign_packages=(./internal/test/{instrument,corpus,debian,proxy}/... ./instrument/{grpc,otel}probe/...)

long_command() { beyond "${command_packages[@]}"; }
long_process() { beyond "${process_packages[@]}"; }
long_docs() { beyond "${docs_packages[@]}"; }
long_fleet() { beyond "${fleet_packages[@]}"; }
long_foreign() { beyond "${foreign_packages[@]}"; }

# Whatever is in no other part, so that no package is forgotten.
long_library() {
	local packages
	mapfile -t packages < <(comm -23 <(go list ./... ./internal/test/... ./cmd/stapsdt/... | sort) \
		<(go list "${command_packages[@]}" "${process_packages[@]}" "${docs_packages[@]}" "${fleet_packages[@]}" "${foreign_packages[@]}" | sort))
	beyond "${packages[@]}"
}

# What the gate's step does not run. The harnesses of programs have the goroutines of tests alone.
long_race() {
	local packages
	mapfile -t packages < <(comm -23 <(go list ./... ./cmd/stapsdt/... ./internal/test/{process,arguments}/... ./instrument/{grpc,otel}probe/... | sort) \
		<(go list "${raced[@]}" | sort))
	short -race "${packages[@]}"
}

# The gate has the build without cgo of what differs in it. The packages that only use the library are the same without optimization.
long_builds() {
	steps 'CGO_ENABLED=0 short ./...' 'short -tags stapsdt_noload ./...' \
		'short -tags stapsdt_nocgo -gcflags="all=-N -l" . ./internal/... ./{proberec,probesock,span} ./internal/test/{process,arguments}/...'
}

# version GO tests the root as its users build it with that version of Go.
version() {
	export GOWORK=off GOTOOLCHAIN=$1
	persistently go version
	short ./...
	CGO_ENABLED=0 short . ./internal/{call,image,region,site}
}

# The version of the go directive, and the newest one when this was written.
long_versions() {
	local oldest
	oldest=go$(sed -n 's/^go //p' go.mod)
	[[ $oldest == go*.*.* ]] || oldest=$oldest.0
	steps "version $oldest" "version go1.27.4"
}

long_c() { make -C cstapsdt test; }
long_architectures() { scripts/lib/architectures.sh; }
long_lint() { scripts/lib/lint.sh; }
long_kernels() { steps "scripts/lib/kernels.sh --quick" scripts/lib/lines.sh; }
long_lockdown() { scripts/lib/lockdown.sh; }
long_packages() { steps "scripts/lib/deb.sh --quick" "scripts/lib/release_test.sh --quick" "scripts/lib/builders.sh"; }
long_soak() { scripts/lib/soak.sh 20 5m; } # the time that a busy machine may take for it
long_fresh() { scripts/lib/fresh.sh; }
long_docker() { scripts/lib/docker_test.sh; }
long_tracers() { steps scripts/lib/tracers.sh scripts/lib/guests.sh scripts/lib/systemtap.sh; }
long_kubernetes() { scripts/kubernetes.sh -json | results tally; }

# fetched installs the tools and downloads the modules, without which no part can be run.
fetched() {
	scripts/tools.sh --all
	scripts/lib/modules.sh
}

# part NAME FUNCTION runs the function, and appends the result of the part.
failed=0
part() {
	local start=$SECONDS status
	printf '\n== %s (%d s)\n' "$1" "$SECONDS"
	rm -f "$STAPSDT_COUNTS" "$STAPSDT_NOT_RUN" "$STAPSDT_FIGURES"
	set +e
	(set -e; "$2") 2>&1 | tee "$temp/log"
	status=${PIPESTATUS[0]}
	set -e
	results part "$1" $((SECONDS - start)) "$status" "$temp/log" || failed=1
}

set +e
(set -e; fetched) 2>&1 | tee "$temp/fetched"
status=${PIPESTATUS[0]}
set -e
unfetched() { grep '^not run:' "$temp/fetched"; return 75; }
case $status in
0) for name; do part "$name" "long_$name"; done ;;
75) for name; do part "$name" unfetched; done ;;
*) exit 1 ;;
esac

printf '\n%d s\n\n' "$SECONDS"
results table "$@"
exit $failed
