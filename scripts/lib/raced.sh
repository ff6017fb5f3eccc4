# The packages with goroutines, which the gate tests with the race detector, and the long run does not again; to be sourced.
# shellcheck disable=SC2034 # the scripts that source it use it
raced=(. ./internal/recording/recorder ./proberec ./probesock ./debugprobe ./span ./instrument/...
	./cmd/stapsdt/internal/{export/...,kube/...,stream/...,find/stall,kernel/engine,show/console,verb/top})
