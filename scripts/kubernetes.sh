#!/usr/bin/env bash
# Runs the manifests of packaging/kubernetes, and the commands of the guides, on a cluster, which it builds of Kubernetes' own
# modules and Debian's packages, and starts in namespaces of its own, so that it can run beside another. The tests are in
# internal/test/kubernetes.
#
#   scripts/kubernetes.sh [FLAG...] [TEST...]
#
#   FLAG   a flag of go test in one word, such as -json or -failfast
#   TEST   a pattern that selects tests, as for go test -run; by default all
#
# It runs the image that is made like that of a release or, with $STAPSDT_RELEASED, the image in this archive of a release.
# It needs root, and installs Debian's packages of the runtime. The binaries are kept in $STAPSDT_CACHE, by default
# ~/.cache/stapsdt. The first run builds them, which takes minutes and 3 GB; later ones start the cluster in seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
bin=${STAPSDT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stapsdt}/kubernetes-$(sed -n 's|^require k8s.io/kubernetes ||p' scripts/lib/cluster/go.mod)
. scripts/lib/install.sh
. scripts/lib/cluster.sh
. scripts/lib/packages.sh

operator=github.com/prometheus-operator/prometheus-operator@v0.85.0
tests=./internal/test/kubernetes

# choose ARGUMENT... sets flags, and the patterns of the tests and of those without their subtests.
choose() {
	flags=() pattern='' whole=''
	local one
	for one; do
		case $one in -*) flags+=("$one") ;; *) pattern+=${pattern:+|}$one whole+=${whole:+|}${one%%/*} ;; esac
	done
	pattern=${pattern:-.} whole=${whole:-.}
}

if [ "${1:-}" != --inside ]; then
	choose "$@"
	listed=$(go test -list "$whole" "$tests")
	if ! grep -q '^Test' <<<"$listed"; then
		echo "kubernetes.sh: no test has a name that matches $pattern; use some of:" "$(go test -list . "$tests" | grep '^Test' | tr '\n' ' ')" >&2
		exit 2
	fi
	if [ "$(id -u)" != 0 ]; then
		echo "kubernetes.sh: this needs root" >&2
		exit 2
	fi
	need etcd=etcd-server containerd=containerd runc=runc /usr/lib/cni/bridge=containernetworking-plugins ip=iproute2 openssl=openssl \
		pgrep=procps unshare=util-linux
	cluster_controllers
	mkdir -p "$bin"
	cluster_build
	work=$(mktemp -d /var/tmp/stapsdt-kubernetes.XXXXXX)
	group=stapsdt-$$
	finish() { # as far as it goes: the status is that of the tests
		set +e
		find /sys/fs/cgroup -depth -type d -path "*/$group*" -exec rmdir {} + 2>/dev/null
		rm -rf "$work"
	}
	trap finish EXIT
	(cd cmd/stapsdt && CGO_ENABLED=0 go build -trimpath -ldflags=-s -o "$work/stapsdt" .)
	if [ -n "${STAPSDT_RELEASED:-}" ]; then
		cp "$STAPSDT_RELEASED" "$work"
	else
		command_image v0.0.0-tree none "$work/stapsdt-v0.0.0-tree-image.tar" "$(go env GOARCH)=$work/stapsdt"
	fi
	(cd examples/http && CGO_ENABLED=0 go build -trimpath -ldflags=-s -o "$work/shop" .)
	(cd internal/test && CGO_ENABLED=0 go build -trimpath -ldflags=-s -o "$work/worker" ./cluster/worker)
	(cd "$work" && GOWORK=off go mod download "$operator")
	unshare --mount --net --pid --fork --kill-child --mount-proc "$0" --inside "$work" "$group" "$@"
	exit
fi

cluster=$2 group=$3
shift 3
choose "$@"
export PATH=$bin:$PATH
cluster_isolate
trap 'cluster_report; cluster_stop' EXIT # until it has started
cluster_start "$group"
trap cluster_stop EXIT
image=$(echo "$cluster"/stapsdt-v*-image.tar)
version=${image##*/stapsdt-}
version=${version%-image.tar}
load_archive "$image"
load shop:latest 65532:65532 "$cluster/shop"
# An ephemeral container's image of the tag latest would be pulled.
for tag in latest 1; do load worker:$tag 65532:65532 "$cluster/worker" "$cluster/stapsdt"; done
mkdir "$cluster/plugins"
ln -s "$cluster/stapsdt" "$cluster/plugins/kubectl-stapsdt"

export PATH=$cluster/plugins:$PATH STAPSDT_IMAGE=docker.io/library/worker:1
export bin cluster group root # with which a test adds a node
if ! GOPROXY=off go test -v -count=1 -vet=off -timeout 50m -run "$pattern" "$tests" "${flags[@]}" -cluster "$cluster" \
	-version "$version" -crd "$(go env GOMODCACHE)/$operator/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"; then
	kubectl get pods --all-namespaces --field-selector status.phase!=Succeeded
	kubectl -n stapsdt logs ds/stapsdt --tail=20
	exit 1
fi
