//go:build linux && (amd64 || arm64)

package cluster

// pod is what the API tells of a pod, as far as the plugin asks.
type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		NodeName            string               `json:"nodeName"`
		SecurityContext     securityContext      `json:"securityContext"`
		Resources           resources            `json:"resources"`
		Containers          []containerSpec      `json:"containers"`
		EphemeralContainers []ephemeralContainer `json:"ephemeralContainers,omitempty"`
	} `json:"spec"`
	Status struct {
		Phase                      string            `json:"phase"`
		ContainerStatuses          []containerStatus `json:"containerStatuses"`
		EphemeralContainerStatuses []containerStatus `json:"ephemeralContainerStatuses,omitempty"`
	} `json:"status"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type securityContext struct {
	RunAsUser                int   `json:"runAsUser,omitempty"`
	RunAsGroup               int   `json:"runAsGroup,omitempty"`
	AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation,omitempty"`
}

type resources struct {
	Limits map[string]string `json:"limits,omitempty"`
}

type containerSpec struct {
	Name         string        `json:"name"`
	Image        string        `json:"image"`
	Command      []string      `json:"command,omitempty"`
	Env          []variable    `json:"env,omitempty"`
	Resources    resources     `json:"resources"`
	VolumeMounts []volumeMount `json:"volumeMounts,omitempty"`
}

type ephemeralContainer struct {
	containerSpec
	TargetContainerName string `json:"targetContainerName,omitempty"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type volumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type containerStatus struct {
	Name         string         `json:"name"`
	ContainerID  string         `json:"containerID"`
	RestartCount int            `json:"restartCount"`
	State        containerState `json:"state"`
}

type containerState struct {
	Running    *struct{}   `json:"running,omitempty"`
	Terminated *terminated `json:"terminated,omitempty"`
}

type terminated struct {
	ExitCode int    `json:"exitCode"`
	Reason   string `json:"reason"`
	Message  string `json:"message,omitempty"`
}
