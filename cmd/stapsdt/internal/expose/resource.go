//go:build linux

package expose

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/cgroup"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	proto "go.opentelemetry.io/proto/otlp/resource/v1"
)

// serviceName is what the exporter calls itself.
const serviceName = "stapsdt"

// ownResource says who sends metrics. Each start of an exporter is an instance of its own, which
// keeps the sums of several on one machine apart. OTEL_RESOURCE_ATTRIBUTES can say otherwise.
func ownResource(ctx context.Context) *resource.Resource {
	// An error means that the machine hides something, without which the rest is still right.
	own, _ := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(serviceName), semconv.ServiceInstanceID(instance().String())),
		resource.WithHost(), resource.WithHostID(), resource.WithProcessPID(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	return own
}

// process says whose spans are.
type process struct {
	provider, executable string
	container            cgroup.Container
	pid                  int
}

// resource returns the attributes of a process: its probes' provider is the service.
func (p process) resource() *proto.Resource {
	attributes := []*common.KeyValue{text(semconv.ServiceNameKey, p.provider), text(semconv.HostNameKey, hostname())}
	if p.pid != 0 {
		attributes = append(attributes, number(semconv.ProcessPIDKey, int64(p.pid)))
	}
	if p.executable != "" {
		attributes = append(attributes, text(semconv.ProcessExecutableNameKey, filepath.Base(p.executable)))
	}
	for _, a := range containerAttributes(&p.container) {
		attributes = append(attributes, text(a.Key, a.Value.AsString()))
	}
	if p.container.InPod() {
		attributes = append(attributes, text(semconv.ServiceInstanceIDKey, instanceOf(&p.container)))
	}
	return &proto.Resource{Attributes: attributes}
}

// containerAttributes returns what is known of a container.
func containerAttributes(c *cgroup.Container) (all []attribute.KeyValue) {
	for _, a := range []attribute.KeyValue{
		semconv.K8SNamespaceName(c.Namespace), semconv.K8SPodName(c.Pod), semconv.K8SPodUID(c.UID), semconv.K8SContainerName(c.Name), semconv.ContainerID(c.ID),
	} {
		if a.Value.AsString() != "" {
			all = append(all, a)
		}
	}
	return all
}

// instance identifies this run of the exporter.
var instance = sync.OnceValue(uuid.New)

// instanceOf returns an instance of a service for a container, as one exporter sees it: the numbers of
// another exporter, or of another run, are others.
func instanceOf(c *cgroup.Container) string {
	return uuid.NewSHA1(instance(), []byte(c.UID+"/"+c.Name+"/"+c.ID)).String()
}

// containerResource returns the resource of a container's metrics: that of the exporter, but for what is
// about its process.
func containerResource(own *resource.Resource, c *cgroup.Container) *resource.Resource {
	var attributes []attribute.KeyValue
	for _, a := range own.Attributes() {
		if a.Key != semconv.ProcessPIDKey {
			attributes = append(attributes, a)
		}
	}
	attributes = append(append(attributes, containerAttributes(c)...), semconv.ServiceInstanceID(instanceOf(c)))
	return resource.NewWithAttributes(own.SchemaURL(), attributes...)
}

// hostname is the machine's name, or "".
var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})
