# Starts a cluster of Kubernetes with one node, in the mount, network and PID namespaces of the caller; to be
# sourced. Everything about it is in the directory $cluster but the binaries, which are in $bin. It ends with the PID namespace.

cluster=${cluster:-} bin=${bin:?} root=${root:?}

# cluster_build builds the binaries, unless they are there: it takes minutes, and 3 GB of modules and caches.
cluster_build() {
	local commands=k8s.io/kubernetes/cmd
	[ ! -x "$bin/pause" ] || return 0 # which is the last
	echo "building Kubernetes into $bin" >&2
	(cd scripts/lib/cluster && export GOWORK=off && go build -o "$bin/" $commands/{kubectl,kube-apiserver,kube-controller-manager,kube-scheduler,kubelet} &&
		CGO_ENABLED=0 go build -o "$bin/pause" pause.go)
}

# cluster_controllers fails unless the control groups have the controllers that the kubelet and runc need. Version 2 lacks those
# that version 1 has bound.
cluster_controllers() {
	local name missing=()
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
		for name in cpu cpuset memory pids; do
			grep -qw "$name" /sys/fs/cgroup/cgroup.controllers || missing+=("$name")
		done
	else
		for name in cpu cpuacct cpuset memory pids; do
			[ -e "/sys/fs/cgroup/$name/cgroup.procs" ] || missing+=("$name")
		done
	fi
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "kubernetes.sh: the control groups at /sys/fs/cgroup ($(stat -f -c %T /sys/fs/cgroup)) lack the controllers ${missing[*]}; /proc/cgroups shows which hierarchy has them" >&2
	return 1
}

# start NAME COMMAND... starts a part of the cluster, whose log ends with its status if it ends.
start() {
	local name=$1
	shift
	{
		"$@" && echo "$name ended with status 0" || echo "$name ended with status $?"
	} >"$cluster/log/$name" 2>&1 </dev/null &
}

# try SECONDS COMMAND... runs a command until it succeeds.
try() {
	local seconds=$1 end=$((SECONDS + $1)) output
	shift
	until output=$("$@" 2>&1); do
		if [ $SECONDS -ge $end ]; then
			echo "kubernetes.sh: did not succeed in $seconds s: $*: $(tail -n 1 <<<"$output")" >&2
			return 1
		fi
		sleep 0.3
	done
}

# cluster_isolate hides the machine's own directories of pods, and gives the network namespace an address.
cluster_isolate() {
	mount --make-rprivate /
	mount -t tmpfs none /run
	mount -t tmpfs none /var/log # not into the machine's, which would then look like a node
	mkdir /var/log/pods /var/log/containers
	ip link set lo up
	ip link add node type bridge # as pods have one, too; not every kernel has dummies
	ip addr add 192.0.2.1/24 dev node
	ip link set node up
	ip route add default via 192.0.2.254
	cluster_group "$1"
}

# cluster_group GROUP makes a control group in each hierarchy. A group of version 2 has the controllers that its parent enables:
# the kubelet demands all that it knows and the root has.
cluster_group() {
	local hierarchy name
	for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*/; do
		[ -e "$hierarchy/cgroup.procs" ] || continue
		mkdir -p "$hierarchy/$1"
		[ -e "$hierarchy/cgroup.controllers" ] || continue
		for name in cpu cpuset memory hugetlb pids; do
			if grep -qw $name "$hierarchy/cgroup.controllers"; then
				echo +$name | tee "$hierarchy/cgroup.subtree_control" "$hierarchy/$1/cgroup.subtree_control" >/dev/null
			fi
		done
	done
}

# cluster_report shows the end of what each part of the cluster has logged.
cluster_report() {
	local log
	for log in "$cluster"/log/*; do
		echo "--- $(basename "$log")"
		tail -n 8 "$log" | cut -c -400
	done >&2
}

# cluster_start GROUP starts the cluster, whose pods are below a control group.
cluster_start() {
	mkdir -p "$cluster"/{log,certs,cni}
	cd "$cluster" || return 1
	python3 "$root/scripts/lib/cluster/image.py" localhost/pause:1 pause.tar 65535 "$bin/pause"
	openssl genrsa -out certs/sa.key 2048 2>/dev/null
	local token
	token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
	echo "$token,admin,1,system:masters" >certs/tokens.csv
	start etcd etcd --data-dir data --listen-client-urls http://127.0.0.1:2399 --advertise-client-urls http://127.0.0.1:2399 --listen-peer-urls http://127.0.0.1:2398
	start api "$bin/kube-apiserver" --etcd-servers http://127.0.0.1:2399 --secure-port 6443 --bind-address 127.0.0.1 --cert-dir certs \
		--service-account-key-file certs/sa.key --service-account-signing-key-file certs/sa.key --service-account-issuer https://kubernetes.default \
		--token-auth-file certs/tokens.csv --authorization-mode RBAC --service-cluster-ip-range 10.96.0.0/16 \
		--allow-privileged --kubelet-preferred-address-types InternalIP
	cat >kubeconfig <<-YAML
		apiVersion: v1
		kind: Config
		clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
		users: [{name: u, user: {token: "$token"}}]
		contexts: [{name: x, context: {cluster: c, user: u}}]
		current-context: x
	YAML
	chmod 600 kubeconfig certs/tokens.csv
	export KUBECONFIG=$cluster/kubeconfig
	# A sandbox's oom_score_adj is below 0 by default, which needs CAP_SYS_RESOURCE.
	cat >containerd.toml <<-TOML
		version = 2
		root = "$cluster/containerd"
		state = "/run/containerd"
		[grpc]
		  address = "/run/containerd/sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "localhost/pause:1"
		  restrict_oom_score_adj = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "$cluster/cni"
	TOML
	cat >cni/10-bridge.conflist <<-JSON
		{"cniVersion": "1.0.0", "name": "pods", "plugins": [
		  {"type": "bridge", "bridge": "pods", "isGateway": true,
		   "ipam": {"type": "host-local", "dataDir": "$cluster/ipam", "ranges": [[{"subnet": "10.244.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		  {"type": "loopback"}]}
	JSON
	start containerd containerd --config containerd.toml
	try 60 ctr -a /run/containerd/sock version
	ctr -a /run/containerd/sock -n k8s.io images import pause.tar >/dev/null
	cat >kubelet.yaml <<-YAML
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		cgroupDriver: cgroupfs
		cgroupRoot: /$1
		failCgroupV1: false
		failSwapOn: false
		containerRuntimeEndpoint: unix:///run/containerd/sock
		authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
		authorization: {mode: AlwaysAllow}
		enforceNodeAllocatable: []
		evictionHard: {}
		imageGCHighThresholdPercent: 100
		maxPods: 250
		registryPullQPS: 0
		syncFrequency: 10s
	YAML
	try 120 kubectl get namespace default
	start kubelet "$bin/kubelet" --config kubelet.yaml --kubeconfig kubeconfig --hostname-override node1 --root-dir "$cluster/kubelet"
	start controllers "$bin/kube-controller-manager" --kubeconfig kubeconfig --service-account-private-key-file certs/sa.key --leader-elect=false
	start scheduler "$bin/kube-scheduler" --kubeconfig kubeconfig --leader-elect=false
	try 120 kubectl get node node1
	kubectl wait --for=condition=Ready node/node1 --timeout=120s >/dev/null
	try 120 kubectl get serviceaccount default
	cd "$root" || return 1
}

# load NAME USER PROGRAM... makes an image of programs, which pods can use.
load() {
	local name=$1 user=$2
	shift 2
	python3 scripts/lib/cluster/image.py "docker.io/library/$name:latest" "$cluster/image.tar" "$user" "$@"
	ctr -a /run/containerd/sock -n k8s.io images import "$cluster/image.tar" >/dev/null
}

# cluster_stop deletes the pods, and what would stay when the PID namespace ends.
cluster_stop() {
	set +e # the status is that of the checks
	timeout 60 kubectl delete pods --all --all-namespaces --grace-period=1 --wait=false >/dev/null 2>&1
	local task
	for task in $(ctr -a /run/containerd/sock -n k8s.io tasks ls -q 2>/dev/null); do
		timeout 10 ctr -a /run/containerd/sock -n k8s.io tasks kill -s KILL "$task" >/dev/null 2>&1
	done
}
