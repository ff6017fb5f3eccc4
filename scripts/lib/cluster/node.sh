#!/usr/bin/env bash
# Runs a node of a cluster: containerd and the kubelet, and what they start. scripts/lib/cluster.sh starts it in mount, network
# and PID namespaces of its own, so that the node has other pods, processes and logs than the others:
#
#   node.sh N CLUSTER GROUP BIN
#
# Its files are in CLUSTER/nodeN, and its pods below the control group GROUP.
set -euo pipefail
n=$1 cluster=$2 group=$3 bin=$4
node=$cluster/node$n
cd "$node"

mount -t tmpfs none /run
mount -t tmpfs none /var/log # not into the machine's, which would then look like a node
mkdir /var/log/pods /var/log/containers
ip link set lo up
ip addr add "192.0.2.1$n/24" dev eth0
ip link set eth0 up
ip route add default via 192.0.2.1

# A sandbox's oom_score_adj is below 0 by default, which needs CAP_SYS_RESOURCE.
cat >containerd.toml <<TOML
version = 2
root = "$node/containerd"
state = "/run/containerd"
[grpc]
  address = "$node/sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$node/cni"
TOML
mkdir cni
cat >cni/10-bridge.conflist <<JSON
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true,
   "ipam": {"type": "host-local", "dataDir": "$node/ipam", "ranges": [[{"subnet": "10.24$n.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "loopback"}]}
JSON
cat >kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /$group
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$node/sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
enforceNodeAllocatable: []
evictionHard: {}
imageGCHighThresholdPercent: 100
maxPods: 250
registryPullQPS: 0
syncFrequency: 10s
YAML
containerd --config containerd.toml >"$cluster/log/containerd$n" 2>&1 &
until [ -S sock ]; do sleep 0.1; done
"$bin/kubelet" --config kubelet.yaml --kubeconfig "$cluster/kubeconfig" --hostname-override "node$n" --node-ip "192.0.2.1$n" --root-dir "$node/kubelet"
