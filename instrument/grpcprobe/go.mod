module github.com/go-stapsdt/stapsdt/instrument/grpcprobe

go 1.25.0

require (
	github.com/go-stapsdt/stapsdt v0.1.0
	github.com/stretchr/testify v1.12.1
	google.golang.org/grpc v1.79.3
	google.golang.org/protobuf v1.36.10
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.48.0 // indirect
	golang.org/x/sys v0.41.0 // indirect
	golang.org/x/text v0.32.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217 // indirect
)
