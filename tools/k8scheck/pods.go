package k8scheck

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// security checks that the namespace enforces the level "restricted", and that this level admits the pods.
func (c *checker) security() {
	for _, o := range c.objects {
		if ns, ok := o.Typed.(*corev1.Namespace); ok && ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			c.fault(o, "does not enforce the restricted level")
		}
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		c.fault(&Object{Kind: "pod security"}, "%v", err)
		return
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for _, w := range c.work {
		for _, result := range evaluator.EvaluatePod(level, &w.template.ObjectMeta, &w.template.Spec) {
			if !result.Allowed {
				c.fault(w, "not restricted: %s: %s", result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	}
}

// workloads checks this project's own rules for pods.
func (c *checker) workloads() {
	for _, j := range typed[*batchv1.CronJob](c) {
		if j.T.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
			c.fault(j, "its runs may overlap")
		}
		if j.T.Spec.JobTemplate.Spec.ActiveDeadlineSeconds == nil {
			c.fault(j, "a run that hangs would be the last, since no other begins beside it")
		}
	}
	for _, w := range c.work {
		spec := w.template.Spec
		if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
			c.fault(w, "mounts a service account token, which it does not need")
		}
		if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
			c.fault(w, "has service links: Kubernetes sets variables for every service, and some of them begin with QUIRE_")
		}
		if w.selector != nil {
			if !slices.Contains(c.selected(w, w.selector), w) || len(c.selected(w, w.selector)) != 1 {
				c.fault(w, "its selector must match its own pods and no others")
			}
			c.spread(w)
		}
		for _, container := range spec.Containers {
			c.container(w, container)
		}
		for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
			c.image(w, container)
		}
		if w.Kind == "StatefulSet" {
			name := nested(w.Fields, "spec", "serviceName")
			if s := c.find("Service", name); s == nil || nested(s.Fields, "spec", "clusterIP") != "None" && w.replicas != nil && *w.replicas > 1 {
				c.fault(w, "its service %q does not exist, or is not headless", name)
			}
		}
	}
}

func (c *checker) spread(w *workload) {
	if w.replicas != nil && *w.replicas == 1 {
		return
	}
	if len(w.template.Spec.TopologySpreadConstraints) == 0 {
		c.fault(w, "its pods may all be on one node")
	}
	for _, constraint := range w.template.Spec.TopologySpreadConstraints {
		if !slices.Contains(c.selected(w, constraint.LabelSelector), w) {
			c.fault(w, "spreads pods that are not its own")
		}
	}
}

func (c *checker) container(w *workload, container corev1.Container) {
	security := container.SecurityContext
	if security == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
		c.fault(w, "%s has a writable root filesystem", container.Name)
	}
	if container.Resources.Requests.Cpu().IsZero() || container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
		c.fault(w, "%s lacks a request for CPU or memory, or a memory limit", container.Name)
	}
	if w.selector != nil && (container.StartupProbe == nil || container.LivenessProbe == nil || container.ReadinessProbe == nil) {
		c.fault(w, "%s lacks a startup, liveness or readiness probe", container.Name)
	}
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if probe == nil {
			continue
		}
		for _, port := range probePorts(probe) {
			if !hasPort(container.Ports, port) {
				c.fault(w, "%s: a probe asks port %s, which is not declared", container.Name, port.String())
			}
		}
		if w.service() && (probe.HTTPGet == nil || probe.HTTPGet.Port.String() != "ops") {
			c.fault(w, "%s: a probe does not ask the operators' port", container.Name)
		}
	}
	for _, variable := range container.Args {
		if strings.Contains(strings.ToLower(variable), "password") || strings.Contains(variable, "$(QUIRE_SECRET)") {
			c.fault(w, "%s has a secret among its arguments", container.Name)
		}
	}
}

// image checks that a container runs the same program tomorrow.
func (c *checker) image(w *workload, container corev1.Container) {
	name, _, pinned := strings.Cut(container.Image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	built := c.options.Built != "" && strings.HasPrefix(name, c.options.Built)
	switch {
	case pinned:
	case tag == "latest":
		c.fault(w, "%s runs the tag latest: %s", container.Name, container.Image)
	case tag == "" && !built:
		c.fault(w, "%s runs an image without a tag, which is the newest: %s", container.Name, container.Image)
	}
	if strings.Contains("/"+name, "/minio/") {
		c.fault(w, "%s runs an image that MinIO has published, with a known hole: %s; deploy/minio/Dockerfile builds it", container.Name, container.Image)
	}
}

func probePorts(probe *corev1.Probe) []intstr.IntOrString {
	switch {
	case probe.HTTPGet != nil:
		return []intstr.IntOrString{probe.HTTPGet.Port}
	case probe.TCPSocket != nil:
		return []intstr.IntOrString{probe.TCPSocket.Port}
	}
	return nil
}

func hasPort(ports []corev1.ContainerPort, port intstr.IntOrString) bool {
	return slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool {
		return port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
	})
}

// pods checks that everything that a pod names exists.
func (c *checker) pods() {
	for _, w := range c.work {
		spec := w.template.Spec
		if c.find("ServiceAccount", spec.ServiceAccountName) == nil {
			c.fault(w, "there is no service account %q", spec.ServiceAccountName)
		}
		volumes := map[string]bool{}
		for _, claim := range w.claims {
			volumes[claim.Name] = true
		}
		for _, volume := range spec.Volumes {
			volumes[volume.Name] = true
			c.volume(w, volume)
		}
		for _, container := range spec.Containers {
			for _, mount := range container.VolumeMounts {
				if !volumes[mount.Name] {
					c.fault(w, "%s mounts %s, which is not a volume", container.Name, mount.Name)
				}
			}
			c.environment(w, container)
		}
	}
}

func (c *checker) volume(w *workload, volume corev1.Volume) {
	if source := volume.Secret; source != nil {
		c.keys(w, "Secret", source.SecretName, itemKeys(source.Items))
	}
	if source := volume.ConfigMap; source != nil {
		c.keys(w, "ConfigMap", source.Name, itemKeys(source.Items))
	}
}

func itemKeys(items []corev1.KeyToPath) []string {
	var keys []string
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}

// keys checks that there is a ConfigMap or Secret with the keys.
func (c *checker) keys(w *workload, kind, name string, wanted []string) {
	have, ok := c.data(kind, name)
	if !ok {
		c.fault(w, "there is no %s %q", kind, name)
		return
	}
	for _, key := range wanted {
		if !slices.Contains(have, key) {
			c.fault(w, "%s %s has no key %q", kind, name, key)
		}
	}
}

func (c *checker) data(kind, name string) (keys []string, found bool) {
	if kind == "Secret" {
		if keys, ok := c.options.Secrets[name]; ok {
			return keys, true
		}
	}
	o := c.find(kind, name)
	if o == nil {
		return nil, false
	}
	for _, field := range []string{"data", "stringData", "binaryData"} {
		values, _ := o.Fields[field].(map[string]any)
		for key := range values {
			keys = append(keys, key)
		}
	}
	return keys, true
}

// environment checks the references of variables, and that the service knows its settings.
func (c *checker) environment(w *workload, container corev1.Container) {
	var names []string
	for _, from := range container.EnvFrom {
		if from.ConfigMapRef != nil {
			c.keys(w, "ConfigMap", from.ConfigMapRef.Name, nil)
			keys, _ := c.data("ConfigMap", from.ConfigMapRef.Name)
			names = append(names, keys...)
		}
		if from.SecretRef != nil {
			c.keys(w, "Secret", from.SecretRef.Name, nil)
			keys, _ := c.data("Secret", from.SecretRef.Name)
			names = append(names, keys...)
		}
	}
	for _, variable := range container.Env {
		names = append(names, variable.Name)
		from := variable.ValueFrom
		switch {
		case from != nil && from.SecretKeyRef != nil && from.SecretKeyRef.Optional != nil && *from.SecretKeyRef.Optional:
		case from != nil && from.SecretKeyRef != nil:
			c.keys(w, "Secret", from.SecretKeyRef.Name, []string{from.SecretKeyRef.Key})
		case from != nil && from.ConfigMapKeyRef != nil:
			c.keys(w, "ConfigMap", from.ConfigMapKeyRef.Name, []string{from.ConfigMapKeyRef.Key})
		case secretName(variable.Name):
			c.fault(w, "%s must come from a secret", variable.Name)
		}
	}
	if !w.service() {
		return
	}
	known := c.options.Settings[w.app()]
	for _, name := range names {
		if strings.HasPrefix(name, "QUIRE_") && !known[name] {
			c.fault(w, "%s does not know the setting %s", w.app(), name)
		}
	}
	for _, needed := range []string{"QUIRE_NATS_URL", "QUIRE_S3_URL", "QUIRE_PARTITIONS", "QUIRE_OPS_LISTEN"} {
		if !slices.Contains(names, needed) {
			c.fault(w, "%s is not set", needed)
		}
	}
}

// secretName tells whether a variable holds a secret. The URLs of the stores do, since they hold passwords.
func secretName(name string) bool {
	for _, part := range []string{"PASSWORD", "SECRET", "TOKEN", "CHECKPOINT_KEY", "NATS_URL", "POSTGRES_URL", "MONGO_URL", "S3_URL"} {
		if strings.HasSuffix(name, part) {
			return true
		}
	}
	return false
}

// nested returns a string from nested fields.
func nested(fields map[string]any, path ...string) string {
	for _, name := range path[:len(path)-1] {
		fields, _ = fields[name].(map[string]any)
	}
	text, _ := fields[path[len(path)-1]].(string)
	return text
}
