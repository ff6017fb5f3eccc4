//go:build linux

package expose

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
)

const (
	serviceName = "stapsdt"
	// workloadName is the attribute with the name of a workload. OpenTelemetry's own attributes,
	// such as k8s.deployment.name, tell the kind too, which the name of a pod does not.
	workloadName = "k8s.workload.name"
)

// ownAttributes returns the attributes of the exporter. Each start of an exporter is a new
// instance, so that the sums of several exporters on a machine are separate.
// OTEL_RESOURCE_ATTRIBUTES takes precedence.
func ownAttributes(ctx context.Context) (all []*common.KeyValue) {
	// An error means that the machine hides something; the other attributes are still right.
	own, _ := resource.New(
		ctx,
		resource.WithAttributes(nodeAttributes()...),
		resource.WithAttributes(
			semconv.ServiceName(serviceName), semconv.ServiceInstanceID(instance().String()),
		),
		resource.WithHost(),
		resource.WithHostID(),
		resource.WithProcessPID(),
		resource.WithFromEnv(),
	)
	for _, a := range own.Attributes() {
		all = append(all, keyValue(string(a.Key), a.Value.AsInterface()))
	}
	return all
}

// nodeAttributes returns the name of the node, if it is known.
func nodeAttributes() (all []attribute.KeyValue) {
	if node := cgroup.Node(); node != "" {
		all = append(all, semconv.K8SNodeName(node))
	}
	return all
}

// process identifies the process of a span.
type process struct {
	provider, executable string
	container            cgroup.Container
	pid                  int
}

// attributes returns the attributes of a process. The provider of its probes is the service.
func (p process) attributes() []*common.KeyValue {
	host, _ := os.Hostname()
	all := []*common.KeyValue{
		keyValue(string(semconv.ServiceNameKey), p.provider),
		keyValue(string(semconv.HostNameKey), host),
	}
	for _, a := range nodeAttributes() {
		all = append(all, keyValue(string(a.Key), a.Value.AsInterface()))
	}
	if p.pid != 0 {
		all = append(all, keyValue(string(semconv.ProcessPIDKey), int64(p.pid)))
	}
	if p.executable != "" {
		all = append(
			all, keyValue(string(semconv.ProcessExecutableNameKey), filepath.Base(p.executable)),
		)
	}
	all = append(all, containerAttributes(&p.container)...)
	if p.container.InPod() {
		all = append(all, keyValue(string(semconv.ServiceInstanceIDKey), instanceOf(&p.container)))
	}
	return all
}

// containerAttributes returns the known attributes of a container.
func containerAttributes(c *cgroup.Container) (all []*common.KeyValue) {
	for _, a := range []Attribute{
		{string(semconv.K8SNamespaceNameKey), c.Namespace}, {string(semconv.K8SPodNameKey), c.Pod},
		{string(semconv.K8SPodUIDKey), c.UID},
		{workloadName, c.Workload()},
		{string(semconv.K8SContainerNameKey), c.Name}, {string(semconv.ContainerIDKey), c.ID},
	} {
		if a.Value != "" {
			all = append(all, keyValue(a.Name, a.Value))
		}
	}
	return all
}

// instance identifies this run of the exporter.
var instance = sync.OnceValue(uuid.New)

// instanceOf returns the service instance of a container for this run of the exporter, so that the
// numbers of other exporters and other runs are separate.
func instanceOf(c *cgroup.Container) string {
	return uuid.NewSHA1(instance(), []byte(c.UID+"/"+c.Name+"/"+c.ID)).String()
}

// inContainer returns the attributes of a container's metrics: the container's own, and the
// exporter's without its process.
func inContainer(own []*common.KeyValue, c *cgroup.Container) []*common.KeyValue {
	of := append(
		containerAttributes(c), keyValue(string(semconv.ServiceInstanceIDKey), instanceOf(c)),
	)
	rest := slices.DeleteFunc(slices.Clone(own), func(a *common.KeyValue) bool {
		return a.Key == string(semconv.ProcessPIDKey) ||
			slices.ContainsFunc(of, func(b *common.KeyValue) bool { return a.Key == b.Key })
	})
	return append(rest, of...)
}
