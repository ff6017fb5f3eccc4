//go:build linux

package expose

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"
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
		resource.WithAttributes(semconv.ServiceName(serviceName), semconv.ServiceInstanceID(uuid.NewString())),
		resource.WithHost(), resource.WithHostID(), resource.WithProcessPID(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	return own
}

// process says whose spans are.
type process struct {
	provider, executable, container string
	pid                             int
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
	if p.container != "" {
		attributes = append(attributes, text(semconv.ContainerIDKey, p.container))
	}
	return &proto.Resource{Attributes: attributes}
}

// hostname is the machine's name, or "".
var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})
