# Starts a cluster of Kubernetes in the mount, network and PID namespaces of the caller, and each node in namespaces below; to be
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

# cluster_isolate hides the machine's own directories, and makes the network of the nodes: 192.0.2.1 is the control plane, and
# 192.0.2.1N the node N.
cluster_isolate() {
	mount --make-rprivate /
	mount -t tmpfs none /run
	ip link set lo up
	ip link add nodes type bridge
	ip addr add 192.0.2.1/24 dev nodes
	ip link set nodes up
	echo 1 >/proc/sys/net/ipv4/ip_forward # between the pods of two nodes
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

# cluster_start GROUP starts the cluster with one node. The pods of all nodes are below a control group.
cluster_start() {
	mkdir -p "$cluster"/{log,certs,images}
	cd "$cluster" || return 1
	python3 "$root/scripts/lib/image.py" --user 65535 localhost/pause:1 images/pause.tar "$(go env GOARCH)=$bin/pause"
	openssl genrsa -out certs/sa.key 2048 2>/dev/null
	local token
	token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
	echo "$token,admin,1,system:masters" >certs/tokens.csv
	start etcd etcd --data-dir data --listen-client-urls http://127.0.0.1:2399 --advertise-client-urls http://127.0.0.1:2399 --listen-peer-urls http://127.0.0.1:2398
	start api "$bin/kube-apiserver" --etcd-servers http://127.0.0.1:2399 --secure-port 6443 --bind-address 192.0.2.1 --cert-dir certs \
		--service-account-key-file certs/sa.key --service-account-signing-key-file certs/sa.key --service-account-issuer https://kubernetes.default \
		--token-auth-file certs/tokens.csv --authorization-mode RBAC --service-cluster-ip-range 10.96.0.0/16 \
		--allow-privileged --kubelet-preferred-address-types InternalIP
	cat >kubeconfig <<-YAML
		apiVersion: v1
		kind: Config
		clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443", insecure-skip-tls-verify: true}}]
		users: [{name: u, user: {token: "$token"}}]
		contexts: [{name: x, context: {cluster: c, user: u}}]
		current-context: x
	YAML
	chmod 600 kubeconfig certs/tokens.csv
	export KUBECONFIG=$cluster/kubeconfig
	try 120 kubectl get namespace default
	start controllers "$bin/kube-controller-manager" --kubeconfig kubeconfig --service-account-private-key-file certs/sa.key --leader-elect=false
	start scheduler "$bin/kube-scheduler" --kubeconfig kubeconfig --leader-elect=false
	cd "$root" || return 1
	cluster_group "$1"
	cluster_node 1 "$1"
	try 120 kubectl get serviceaccount default
}

# cluster_node N GROUP starts node N, from 1 to 9, with the images that have been loaded, and waits until it is ready.
cluster_node() {
	local n=$1 group=$2/node$1 image
	mkdir -p "$cluster/node$n"
	cluster_group "$group"
	ip netns add "node$n"
	ip link add "node$n" type veth peer name eth0 netns "node$n"
	ip link set "node$n" master nodes up
	ip route add "10.24$n.0.0/16" via "192.0.2.1$n"
	start "node$n" nsenter --net="/run/netns/node$n" unshare --mount --pid --fork --kill-child --mount-proc \
		"$root/scripts/lib/cluster/node.sh" "$n" "$cluster" "$group" "$bin"
	try 60 ctr -a "$cluster/node$n/sock" version || return 1
	for image in "$cluster"/images/*; do import "$n" "$image" || return 1; done
	try 120 kubectl get node "node$n" || return 1
	kubectl wait --for=condition=Ready "node/node$n" --timeout=120s >/dev/null
}

# import N IMAGE imports an image into node N.
import() { ctr -a "$cluster/node$1/sock" -n k8s.io images import "$2" >/dev/null; }

# load NAME USER PROGRAM... makes an image of programs, which the pods of all nodes can use. NAME has a tag: with the tag latest, it
# would be pulled.
load() {
	local name=$1 user=$2 programs
	shift 2
	programs=$(IFS=, && echo "$*")
	python3 "$root/scripts/lib/image.py" --user "$user" "docker.io/library/$name" "$cluster/$name.tar" "$(go env GOARCH)=$programs"
	load_archive "$cluster/$name.tar"
}

# load_archive FILE moves the archive of an image to those that all nodes have.
load_archive() {
	local image node
	image=$cluster/images/$(basename "$1")
	mv "$1" "$image"
	for node in "$cluster"/node*; do import "${node##*/node}" "$image"; done
}

# cluster_stop deletes the pods, and what would stay when the PID namespace ends.
cluster_stop() {
	set +e # the status is that of the checks
	timeout 60 kubectl delete pods --all --all-namespaces --grace-period=1 --wait=false >/dev/null 2>&1
	local node task
	for node in "$cluster"/node*; do
		for task in $(ctr -a "$node/sock" -n k8s.io tasks ls -q 2>/dev/null); do
			timeout 10 ctr -a "$node/sock" -n k8s.io tasks kill -s KILL "$task" >/dev/null 2>&1
		done
	done
}
