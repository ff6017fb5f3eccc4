//go:build unix

package kube

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKubectlError: of what kubectl prints when it cannot reach the server, only the error is shown, not its log.
func TestKubectlError(t *testing.T) {
	const log = "E1128 05:06:07.123456   17190 memcache.go:265] \"Unhandled Error\" err=\"couldn't get current server API group list\"\n"
	const last = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
	for printed, want := range map[string]string{
		log + log + last + "\n": "kubectl: " + last,
		last + "\n":             "kubectl: " + last,
		log:                     "kubectl: " + log[:len(log)-1],
		"":                      "kubectl: exit status 1",
	} {
		assert.EqualError(t, kubectlError(printed, errors.New("exit status 1")), want)
	}
}
