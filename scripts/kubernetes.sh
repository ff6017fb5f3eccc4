#!/usr/bin/env bash
# Runs the manifests of packaging/kubernetes, and the commands of the guides, on a cluster, which it builds of Kubernetes' own
# modules and Debian's packages, and starts in namespaces of its own, so that it can run beside another.
#
#   scripts/kubernetes.sh [CHECK...]
#
#   CHECK   agent moment rules brief pods plugin replicas killed later limited sidecar verbs monitor nodes;
#           by default all
#           They run in this order. The cluster has one node until nodes adds the second.
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
. scripts/lib/check.sh
. scripts/lib/packages.sh

operator=github.com/prometheus-operator/prometheus-operator@v0.85.0
checks="agent moment rules brief pods plugin replicas killed later limited sidecar verbs monitor nodes"

if [ "${1:-}" != --inside ]; then
	for one in "$@"; do
		case " $checks " in *" $one "*) ;; *)
			echo "kubernetes.sh: unknown check $one; use one of: $checks" >&2
			exit 2
			;;
		esac
	done
	if [ "$(id -u)" != 0 ]; then
		echo "kubernetes.sh: this needs root" >&2
		exit 2
	fi
	need etcd=etcd-server containerd=containerd runc=runc /usr/lib/cni/bridge=containernetworking-plugins ip=iproute2 curl=curl openssl=openssl unshare=util-linux
	cluster_controllers
	mkdir -p "$bin"
	cluster_build
	work=$(mktemp -d /var/tmp/stapsdt-kubernetes.XXXXXX)
	group=stapsdt-$$
	finish() { # as far as it goes: the status is that of the checks
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
chosen=" ${*:-$checks} "
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
export STAPSDT_IMAGE=docker.io/library/worker:1
mkdir "$cluster/plugins"
ln -s "$cluster/stapsdt" "$cluster/plugins/kubectl-stapsdt"
export PATH=$cluster/plugins:$PATH

# The node agent is what packaging/kubernetes says, with an image and rules in a kustomization as a user would have one, and so is
# the sidecar.
mkdir "$cluster/agent" "$cluster/sidecar"
cp -r packaging/kubernetes "$cluster/base"
echo "{resources: [../base/sidecar], images: [{name: stapsdt, newTag: $version}]}" >"$cluster/sidecar/kustomization.yaml"
cat >"$cluster/agent/kustomization.yaml" <<YAML
resources: [../base]
images: [{name: stapsdt, newTag: $version}]
generatorOptions: {disableNameSuffixHash: true}
configMapGenerator: [{name: stapsdt, namespace: stapsdt, behavior: replace, files: [rules.yaml]}]
YAML
rules() { # rules EXPIRE NAME... writes rules that count the worker's events
	echo "metrics:"
	local expire=$1 name
	shift
	for name; do echo "  - {name: $name, probe: 'worker:done', counter: 1, expire: $expire}"; done
}
apply_rules() {
	cat >"$cluster/agent/rules.yaml"
	kubectl apply -k "$cluster/agent" || return 1
}
agent_on() { kubectl -n stapsdt get pods -l app.kubernetes.io/name=stapsdt --field-selector "spec.nodeName=$1" -o jsonpath='{.items[0].status.podIP}'; }
scrape() { curl -s --max-time 10 "http://$(agent_on "${1:-node1}"):9964/metrics"; }     # scrape [NODE]
value() { scrape "${2:-node1}" | awk -v name="$1" '$1 == name {print $2}'; }            # value SERIES [NODE], without spaces
is() { [ "$(value "$1")" = "$2" ]; }                                                    # is SERIES VALUE
in_force() { [ -n "$(value "stapsdt_events_total{metric=\"$1\"}" "${2:-node1}")" ]; } # in_force METRIC [NODE]
series() { scrape | grep -c "^$1{.*namespace=\"work\"" || true; }
has_series() { [ "$(series "$1")" = "$2" ]; }

# job NAME COMPLETIONS EVENTS [FIELD [DELAY [WAIT [VOLUME]]]] runs a job whose pods fire, evenly on all nodes, and waits until it is
# complete. Without WAIT, a pod waits until it is traced.
job() {
	kubectl apply -f - <<-YAML
		apiVersion: batch/v1
		kind: Job
		metadata: {name: $1, namespace: work}
		spec:
		  completions: $2
		  parallelism: 10
		  ${4:-}
		  template:
		    metadata: {labels: {job: $1}}
		    spec:
		      restartPolicy: Never
		      topologySpreadConstraints:
		        - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {job: $1}}}
		      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
		      containers:
		        - name: app
		          image: worker
		          imagePullPolicy: IfNotPresent
		          args: ["-events", "$3", "-delay", "${5:-0}", "-wait=${6:-true}"]
		          env: [{name: STAPSDT_DIR, value: /probes/app}]
		          volumeMounts: [{name: probes, mountPath: /probes}]
		          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
		      volumes: [{name: probes, ${7:-emptyDir: {medium: Memory\}}}]
	YAML
	kubectl -n work wait --for=condition=Complete "job/$1" --timeout=600s
}

# counted JOB METRIC NODE EVENTS: the agent of a node has counted the events of each pod of a job there, under its own name. It
# prints the number of the pods.
counted() {
	local text pod pods=0 wrong=0
	text=$(scrape "$3")
	for pod in $(kubectl -n work get pods -l "job=$1" --field-selector "status.phase=Succeeded,spec.nodeName=$3" -o jsonpath='{.items[*].metadata.name}'); do
		pods=$((pods + 1))
		if ! grep -qxF "$2{container=\"app\",executable=\"worker\",namespace=\"work\",pod=\"$pod\",workload=\"$1\"} $4" <<<"$text"; then
			echo "$pod: $(grep -F "pod=\"$pod\"" <<<"$text" || echo no series)" >&2
			wrong=$((wrong + 1))
		fi
	done
	echo $pods
	echo "$3: $wrong of $pods pods are wrong" >&2
	[ $wrong = 0 ]
}

# exact JOB METRIC NODE EVENTS is counted, and the agent has no series of other pods.
exact() {
	local text pods
	text=$(scrape "$3")
	pods=$(counted "$@") || return 1
	echo "$pods"
	[ "$(grep -c "^$2{" <<<"$text")" = "$pods" ] && grep -qxF "stapsdt_events_total{metric=\"$2\"} $((pods * $4))" <<<"$text"
}

# agent: 100 pods that wait until they are traced.
agent() {
	job exact 100 1000 || return 1
	[ "$(exact exact work_total node1 1000)" = 100 ]
}

# moment: pods that fire at once, and end. They are counted exactly if they share the directory of their images, and a pod before
# them was traced. Otherwise the exporter counts processes that it has missed.
moment() {
	local missed='stapsdt_unattached_processes_total{metric="work_total"}' was volume="persistentVolumeClaim: {claimName: probes}"
	install -d -o 65532 -m 700 "$cluster/probes"
	kubectl apply -f - <<-YAML || return 1
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: probes}
		spec: {capacity: {storage: 1Mi}, accessModes: [ReadWriteMany], storageClassName: probes, hostPath: {path: $cluster/probes}}
		---
		apiVersion: v1
		kind: PersistentVolumeClaim
		metadata: {name: probes, namespace: work}
		spec: {resources: {requests: {storage: 1Mi}}, accessModes: [ReadWriteMany], storageClassName: probes}
	YAML
	job first 1 1 "" 0 true "$volume" || return 1
	job shared 10 1000 "" 0 false "$volume" || return 1
	[ "$(counted shared work_total node1 1000)" = 10 ] || return 1
	was=$(value "$missed") # on a busy machine, some of those count as missed, too
	job alone 10 1000 "" 0 false || return 1
	echo "$(value "$missed") - $was of 10 pods are known to be missed"
	[ "$(value "$missed")" -gt "$was" ]
}

# rules: changed rules are read, and a rule that stays goes on; wrong ones are refused, and those in force stay.
changed_rules() {
	local was
	was=$(value 'stapsdt_events_total{metric="work_total"}')
	rules 10m work_total more_total | apply_rules || return 1
	try 120 in_force more_total || return 1
	is 'stapsdt_events_total{metric="work_total"}' "$was" || return 1
	echo "metrics: [wrong" | apply_rules || return 1
	try 120 is stapsdt_rules_reload_success 0 || return 1
	is 'stapsdt_events_total{metric="work_total"}' "$was" || return 1
	rules 10m work_total | apply_rules || return 1
	try 120 is stapsdt_rules_reload_success 1 || return 1
}

# brief: 200 pods come and go, all their events are counted, and their series expire.
brief() {
	rules 8s brief_total | apply_rules || return 1
	try 120 in_force brief_total || return 1
	job brief 200 10 "ttlSecondsAfterFinished: 0" || kubectl -n work wait --for=delete job/brief --timeout=600s
	try 60 is 'stapsdt_events_total{metric="brief_total"}' 2000 || return 1
	try 60 has_series brief_total 0 || return 1
	is 'stapsdt_series{metric="brief_total"}' 0 || return 1
	scrape | grep -E '^(process_resident_memory_bytes|stapsdt_(lost|missed|scan))'
}

# pods: a command in the agent selects pods that start later by their names: it misses what they fire before their links are
# there, so they wait.
named_pods() {
	local log=$cluster/named
	kubectl -n stapsdt exec ds/stapsdt -- /stapsdt count -p 'work/later-*/app' worker:done --by namespace,pod -d 60s -o json >"$log" 2>"$log.err" &
	local counting=$!
	try 30 grep -q "waiting for one" "$log.err" || return 1
	job later 3 1000 "" 2s || return 1
	job other 1 1000 "" 2s || return 1
	wait $counting
	cat "$log"
	[ "$(grep -c '"pod":"later-.*"count":1000}' "$log")" = 3 ] && ! grep -q '"pod":"other-' "$log"
}

# plugin: the node's PID namespace is not the machine's, and that of the pod is below it. The first process of the container has no
# probes; those that it has started fire 100 events each whenever one attaches, and all are seen, by the kernel and by the sockets.
plugin() {
	kubectl apply -f - <<-'YAML'
		apiVersion: v1
		kind: Pod
		metadata: {name: launched, namespace: work}
		spec:
		  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
		  containers:
		    - name: app
		      image: worker
		      imagePullPolicy: IfNotPresent
		      args: ["-launch", "3", "-events", "100"]
		      env: [{name: STAPSDT_SOCKET, value: "1"}, {name: STAPSDT_DIR, value: /probes/app}]
		      volumeMounts: [{name: probes, mountPath: /probes}]
		      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
		  volumes: [{name: probes, emptyDir: {}}]
	YAML
	kubectl -n work wait --for=condition=Ready pod/launched --timeout=60s || return 1
	local via
	for via in kernel socket; do
		kubectl stapsdt trace -p work/launched worker:asked --via $via --number 300 -d 60s -o json >"$cluster/asked" || return 1
		grep -o '"pid":[0-9]*' "$cluster/asked" | sort | uniq -c | tee "$cluster/pids"
		[ "$(awk '$1 == 100' "$cluster/pids" | wc -l)" = 3 ] && [ "$(wc -l <"$cluster/asked")" = 300 ] || return 1
	done
}

# developer makes a user with the role edit of a namespace, and the right of packaging/kubernetes/debug-role.yaml, and
# a kubeconfig without any other right.
developer() {
	[ ! -e "$cluster/developer" ] || return 0
	kubectl apply -f packaging/kubernetes/debug-role.yaml || return 1
	kubectl -n work create serviceaccount developer || return 1
	kubectl -n work create rolebinding developer --clusterrole=edit --serviceaccount=work:developer || return 1
	local token
	token=$(kubectl -n work create token developer) || return 1
	(umask 077 && sed "s|token: \"[^\"]*\"|token: \"$token\"|" "$KUBECONFIG" >"$cluster/developer") || return 1
	try 30 sh -c "kubectl --kubeconfig='$cluster/developer' -n work auth can-i patch pods/ephemeralcontainers | grep -x yes"
}

# deployment NAME REPLICAS: each pod fires 1000 events, a second after one attaches.
deployment() {
	kubectl apply -f - <<-YAML
		apiVersion: apps/v1
		kind: Deployment
		metadata: {name: $1, namespace: work}
		spec:
		  replicas: $2
		  selector: {matchLabels: {app: $1}}
		  template:
		    metadata: {labels: {app: $1}}
		    spec:
		      terminationGracePeriodSeconds: 1
		      topologySpreadConstraints:
		        - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: $1}}}
		      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
		      containers:
		        - name: app
		          image: worker
		          imagePullPolicy: IfNotPresent
		          args: ["-launch", "1", "-events", "1000"]
		          env: [{name: STAPSDT_SOCKET, value: "1"}, {name: STAPSDT_DIR, value: /probes/app}]
		          volumeMounts: [{name: probes, mountPath: /probes}]
		          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
		      volumes: [{name: probes, emptyDir: {}}]
	YAML
	kubectl -n work rollout status "deployment/$1" --timeout=60s
}

# whole FILE PODS: the file has 1000 different events of each of so many pods, and no others.
whole() {
	[ "$(grep -o '"pod":"[^"]*"\|"number":[0-9]*' "$1" | paste - - | sort -u | cut -f1 | uniq -c | awk '$1 == 1000' | wc -l)" = "$2" ] &&
		[ "$(wc -l <"$1")" = "${2}000" ]
}

# replicas: the events of all pods of a Deployment are one stream, in which others join, for a user who may only edit. The agents
# show the same to an administrator.
replicas() {
	local user=--kubeconfig=$cluster/developer seen=$cluster/seen pod
	developer || return 1
	deployment web 2 || return 1
	kubectl stapsdt list -n work deploy/web "$user" || return 1
	kubectl stapsdt trace -n work deploy/web worker:asked -o json -d 5m "$user" >"$seen" 2>"$seen.err" &
	local tracing=$!
	try 60 whole "$seen" 2 || return 1
	kubectl -n work scale deployment/web --replicas=3 || return 1
	try 60 whole "$seen" 3 || return 1
	pod=$(kubectl -n work get pods -l app=web -o jsonpath='{.items[0].metadata.name}')
	kubectl -n work delete pod "$pod" --wait=false || return 1
	try 60 whole "$seen" 4 || return 1 # the ReplicaSet has replaced it
	kill -INT $tracing
	wait $tracing || return 1
	cat "$seen.err"
	whole "$seen" 4 && [ "$(grep -c 'has joined' "$seen.err")" = 2 ] && grep "$pod" "$seen.err" || return 1
	kubectl stapsdt count -n work -l app=web worker:asked -d 5s -o json --via kernel | tee "$seen" || return 1
	[ "$(grep -c '"by":{"pod":"web-.*"count":1000}' "$seen")" = 3 ] || return 1
	kubectl stapsdt record -n work deploy/web worker:asked -d 5s -O "$cluster/recordings/" "$user" || return 1
	for pod in "$cluster"/recordings/web-*.rec; do
		"$cluster/stapsdt" count --from "$pod" -o json | tee "$seen" || return 1
		grep -q '"count":1000' "$seen" || return 1
	done
	[ "$(ls "$cluster/recordings" | wc -l)" = 3 ]
}

# crashing NAME HOW starts a pod whose container fires 1000 events into a recording, and ends badly.
crashing() {
	kubectl apply -f - <<-YAML
		apiVersion: v1
		kind: Pod
		metadata: {name: $1, namespace: work}
		spec:
		  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
		  containers:
		    - name: app
		      image: worker
		      imagePullPolicy: IfNotPresent
		      args: ["-events", "1000", "-crash", "$2"]
		      env:
		        - {name: STAPSDT_DIR, value: /run/stapsdt/app}
		        - {name: STAPSDT_SOCKET, value: "1"}
		        - {name: STAPSDT_RECORD, value: "/run/stapsdt/rec/app.rec,4M"}
		      resources: {limits: {memory: 64Mi}}
		      volumeMounts: [{name: stapsdt, mountPath: /run/stapsdt}]
		      securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
		  volumes: [{name: stapsdt, emptyDir: {medium: Memory}}]
	YAML
}

# recording POD NAME prints where a file of the directory of recordings is: in the mount namespace of the node.
recording() {
	local kubelet
	kubelet=$(pgrep -f "hostname-override node1 ") || return 1
	echo "/proc/$kubelet/root$cluster/node1/kubelet/pods/$(kubectl -n work get pod "$1" -o jsonpath='{.metadata.uid}')/volumes/kubernetes.io~empty-dir/stapsdt/rec/$2"
}

# fetched POD: a developer lists the recording of an earlier life, reads it in the pod, and fetches exactly what is in the volume.
fetched() {
	local user=(kubectl stapsdt --kubeconfig "$cluster/developer") out name
	out=$("${user[@]}" list -p "work/$1") || return 1
	echo "$out"
	name=$(sed -n 's|.*recorded in /run/stapsdt/rec/\([^ ]*\) by an earlier process; last event .*|\1|p' <<<"$out" | tail -1)
	[ -n "$name" ] || return 1
	"${user[@]}" count -p "work/$1" --from "$name" worker:done -o json | tee "$cluster/counted" || return 1
	grep -q '"count":1000' "$cluster/counted" || return 1
	[ "$("${user[@]}" trace -p "work/$1" --from "/run/stapsdt/rec/$name" worker:done -o json | grep -c '"probe":"done"')" = 1000 ] || return 1
	"${user[@]}" hist -p "work/$1" --from "$name" worker:done number | tee "$cluster/hist" || return 1
	grep -q 'count 1000  average 499.5 ' "$cluster/hist" || return 1
	"${user[@]}" top -p "work/$1" --from "$name" | tee "$cluster/top" || return 1
	grep -q 'worker:life' "$cluster/top" || return 1
	rm -f "$cluster/kept.rec"
	"${user[@]}" record -p "work/$1" --kept --from "$name" -O "$cluster/kept.rec" || return 1
	cmp "$cluster/kept.rec" "$(recording "$1" "$name")"
}

# killed: what a container has recorded before the kernel killed it for its memory is read while the next life runs, and that of a
# container that crashes again and again while none runs.
killed() {
	developer || return 1
	crashing killed memory || return 1
	crashing looping status || return 1
	try 120 sh -c 'kubectl -n work get pod killed -o jsonpath="{.status.containerStatuses[0].lastState.terminated.reason}" | grep -x OOMKilled' || return 1
	kubectl -n work wait --for=condition=Ready pod/killed --timeout=60s || return 1
	fetched killed || return 1
	cp "$cluster/kept.rec" "$cluster/named.rec"
	rm "$cluster/kept.rec"
	kubectl stapsdt --kubeconfig "$cluster/developer" record -p work/killed --kept -O "$cluster/kept.rec" || return 1
	cmp "$cluster/kept.rec" "$cluster/named.rec" || return 1
	# Long enough between two lives, so that the first request does not meet one.
	try 120 sh -c 'kubectl -n work get pod looping -o jsonpath="{.status.containerStatuses[0].state.waiting.message}" | grep "back-off [248]0s\|back-off 1m"' || return 1
	kubectl stapsdt --kubeconfig "$cluster/developer" count -p work/looping worker:done -d 1s 2>&1 | tee "$cluster/refused"
	grep -q 'record --kept -p work/looping' "$cluster/refused" || return 1
	fetched looping
}

# later: a developer waits for the next life of a container that has crashed twice.
later() {
	developer || return 1
	crashing twice twice || return 1
	try 60 sh -c 'kubectl -n work get pod twice -o jsonpath="{.status.containerStatuses[0].state.waiting.reason}" | grep CrashLoopBackOff' || return 1
	kubectl stapsdt --kubeconfig "$cluster/developer" trace -n work twice worker:done --wait --number 1000 -d 2m -o json >"$cluster/life" || return 1
	[ "$(grep -o '"number":[0-9]*' "$cluster/life" | sort -u | wc -l)" = 1000 ]
}

# limited: a request leaves a program alive that has little left of a limit of the pod itself, which its container cannot see.
limited() {
	developer || return 1
	kubectl apply -f - <<-'YAML' || return 1
		apiVersion: v1
		kind: Pod
		metadata: {name: limited, namespace: work}
		spec:
		  resources: {limits: {memory: 128Mi}}
		  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
		  containers:
		    - name: app
		      image: worker
		      imagePullPolicy: IfNotPresent
		      args: ["-take", "90", "-launch", "1", "-events", "1000"]
		      env: [{name: STAPSDT_SOCKET, value: "1"}, {name: STAPSDT_DIR, value: /probes/app}]
		      volumeMounts: [{name: probes, mountPath: /probes}]
		      securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
		  volumes: [{name: probes, emptyDir: {medium: Memory}}]
	YAML
	kubectl -n work wait --for=condition=Ready pod/limited --timeout=60s || return 1
	[ "$(kubectl -n work get pod limited -o jsonpath='{.spec.resources.limits.memory}')" = 128Mi ] || return 1
	kubectl stapsdt --kubeconfig "$cluster/developer" count -p work/limited worker:asked -d 5s -o json | tee "$cluster/counted" || return 1
	grep -q '"count":1000' "$cluster/counted" || return 1
	[ "$(kubectl -n work get pod limited -o jsonpath='{.status.containerStatuses[0].restartCount}')" = 0 ]
}

# shown OUTPUT COMMAND... runs a verb for the pod $pod of the service as a developer, and finds the output.
shown() {
	local output=$1 began=$EPOCHREALTIME
	shift
	kubectl stapsdt --kubeconfig "$cluster/developer" "$1" -n shop "$pod" "${@:2}" >"$cluster/shown" || return 1
	echo "$* took $(echo "$EPOCHREALTIME $began" | awk '{print $1 - $2}') s"
	head -3 "$cluster/shown"
	[ -z "$output" ] || grep -q "$output" "$cluster/shown"
}

# verbs: each verb for a service that is busy.
verbs() {
	developer || return 1
	kubectl apply -k "$cluster/sidecar" || return 1
	kubectl -n shop rollout status deployment/shop --timeout=120s || return 1
	kubectl -n shop create rolebinding developer --clusterrole=edit --serviceaccount=work:developer || return 1
	local pod ip busy
	pod=$(kubectl -n shop get pods -o jsonpath='{.items[0].metadata.name}')
	ip=$(kubectl -n shop get pod "$pod" -o jsonpath='{.status.podIP}')
	while sleep 0.02; do curl -s "http://$ip:8080/items"; done >/dev/null &
	busy=$!
	shown 'shop:request__end(' list && shown '"status":200' trace shop:request__end --number 5 -o json &&
		shown 'shop:request__end' count 'shop:*' -d 1s && shown 'p99' hist shop:request__end nanoseconds -d 1s &&
		shown 'shop:request__start' latency shop:request -d 1s && shown 'shop:request$' top --number 1 &&
		shown 'shop:query' tree -w 'path == "/items"' --number 1 && shown '' record 'shop:*' -d 1s -O "$cluster/shop.rec"
	local status=$?
	kill $busy
	[ $status = 0 ] && "$cluster/stapsdt" tree --from "$cluster/shop.rec" --slowest 1 | tee "$cluster/shown" && grep -q 'shop:query' "$cluster/shown"
}

# sidecar: an exporter beside a service in a restricted namespace, without any capability.
sidecar() {
	kubectl apply -k "$cluster/sidecar" || return 1
	kubectl -n shop rollout status deployment/shop --timeout=120s || return 1
	local ip
	for ip in $(kubectl -n shop get pods -o jsonpath='{.items[*].status.podIP}'); do
		try 30 sh -c "curl -s http://$ip:9964/metrics | grep -x 'stapsdt_watched_processes 1'"
		curl -s "http://$ip:8080/items" "http://$ip:8080/items" "http://$ip:8080/items"
	done
	kubectl -n shop get pods -o jsonpath='{range .items[*]}{.metadata.name} {.status.podIP}{"\n"}{end}' | while read -r name ip; do
		try 30 sh -c "curl -s http://$ip:9964/metrics | grep -F 'container=\"app\",executable=\"\",method=\"GET\",namespace=\"shop\",pod=\"$name\",route=\"GET /items\",status=\"200\",workload=\"shop\"} 3'"
	done
}

# monitor: the PodMonitor is one of the operator whose module has the CRD.
monitor() {
	local crd
	crd=$(go env GOMODCACHE)/$operator/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml
	kubectl apply --server-side -f "$crd" || return 1
	try 30 kubectl get podmonitors || return 1
	kubectl apply --dry-run=server --validate=strict -k packaging/kubernetes/podmonitor || return 1
}

# nodes: the agents of two nodes, count the pods of their own node alone: these run a file that the other node does not have.
second_node() {
	[ ! -e "$cluster/node2" ] || return 0
	cluster_node 2 "$group" || return 1
	kubectl -n stapsdt rollout status daemonset/stapsdt --timeout=120s
}
nodes() {
	second_node || return 1
	rules 10m spread_total | apply_rules || return 1
	local node pods sum=0
	for node in node1 node2; do try 120 in_force spread_total $node || return 1; done
	job spread 20 1000 || return 1
	for node in node1 node2; do
		pods=$(exact spread spread_total $node 1000) || return 1
		[ "$pods" -ge 5 ] || return 1
		sum=$((sum + pods))
	done
	[ $sum = 20 ] || return 1
	deployment everywhere 4 || return 1
	kubectl stapsdt count -n work deploy/everywhere worker:asked -d 5s -o json --via kernel -v | tee "$cluster/seen" || return 1
	[ "$(grep -c '"by":{"pod":"everywhere-.*"count":1000}' "$cluster/seen")" = 4 ] &&
		[ "$(kubectl -n work get pods -l app=everywhere -o jsonpath='{.items[*].spec.nodeName}' | tr ' ' '\n' | sort -u | wc -l)" = 2 ]
}

kubectl create namespace work >/dev/null
kubectl label namespace work pod-security.kubernetes.io/enforce=restricted >/dev/null
agent_is_ready() {
	rules 10m work_total | apply_rules || return 1
	kubectl -n stapsdt rollout status daemonset/stapsdt --timeout=120s || return 1
}
# A step of a check returns 1 by itself: set -e is off there.
check "the node agent starts" agent_is_ready
for one in $checks; do
	[[ $chosen = *" $one "* ]] || continue
	case $one in
	agent) check "100 pods of a job are counted exactly, each by its name" agent ;;
	moment) check "pods that live for a moment are counted, or their loss is" moment ;;
	rules) check "changed rules are read, and wrong ones are refused" changed_rules ;;
	brief) check "200 pods come and go, and their series expire" brief ;;
	pods) check "a command follows pods by their names" named_pods ;;
	plugin) check "kubectl stapsdt sees the processes below the first, in nested PID namespaces" plugin ;;
	replicas) check "kubectl stapsdt shows all replicas of a Deployment in one stream" replicas ;;
	killed) check "a developer reads and fetches what containers recorded before they crashed" killed ;;
	later) check "a developer waits for the next life of a container" later ;;
	limited) check "a request leaves a program alive that the pod's own limit leaves little memory" limited ;;
	sidecar) check "an exporter beside a service needs no capability" sidecar ;;
	verbs) check "each verb of kubectl stapsdt answers a developer" verbs ;;
	monitor) check "the PodMonitor agrees with its CRD" monitor ;;
	nodes) check "the agents of two nodes count the pods of their own" nodes ;;
	esac
done
if [ $failed -gt 0 ]; then
	kubectl get pods --all-namespaces
	kubectl -n stapsdt logs ds/stapsdt --tail=20
fi
verdict
