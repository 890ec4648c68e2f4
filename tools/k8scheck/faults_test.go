package k8scheck_test

import (
	"strings"
	"testing"

	"quire.dev/tools/k8scheck"
)

// planted is a fault that Check must find. It replaces old with replacement in an object of the overlay.
type planted struct {
	name             string
	overlay          string
	object           string // "Deployment/edge"; of a generated name the beginning, up to its last hyphen
	old, replacement string
	found            string // part of the fault
}

func plants() []planted {
	return []planted{
		// Faults that types and validation find.
		{"misspelled field", "production", "Deployment/edge", "terminationGracePeriodSeconds", "terminationGracePeriod", "unknown field"},
		{"number as text", "production", "Deployment/paste", "containerPort: 9090", `containerPort: "ops"`, "decode"},
		{"unknown API version", "production", "PodDisruptionBudget/edge", "policy/v1", "policy/v1beta9", "decode"},
		{"bad name", "production", "Service/edge", "name: edge\n", "name: Edge_1\n", "metadata.name"},
		{"selector of another workload", "production", "Deployment/lite", "      app.kubernetes.io/name: lite\n  strategy", "      app.kubernetes.io/name: paste\n  strategy", "selector"},
		{"limit below request", "production", "Deployment/file", "memory: 1Gi", "memory: 1Mi", "must be less than or equal to memory limit"},
		{"bad quantity", "production", "StatefulSet/nats", "storage: 100Gi", "storage: 100Gigs", "decode"},
		{"port out of range", "production", "Service/edge", "port: 80\n", "port: 80000\n", "ports"},
		{"probe without action", "production", "Deployment/edge", "        readinessProbe:\n          failureThreshold: 2\n          httpGet:\n            path: /readyz\n            port: ops\n", "        readinessProbe:\n          failureThreshold: 2\n", "handler"},
		{"budget of two kinds", "production", "PodDisruptionBudget/edge", "maxUnavailable: 1", "maxUnavailable: 1\n  minAvailable: 1", "refused"},
		{"minimum above the maximum", "production", "HorizontalPodAutoscaler/edge", "maxReplicas: 20", "maxReplicas: 1", "maxReplicas"},
		{"bad network", "production", "NetworkPolicy/services-to-postgres-outside", "10.0.0.0/8", "10.0.0.0/80", "cidr"},
		{"bad path type", "ingress", "Ingress/quire", "pathType: Prefix", "pathType: Beginning", "pathType"},
		{"mount of an unknown volume", "production", "Deployment/edge", "- mountPath: /tmp\n          name: tmp", "- mountPath: /tmp\n          name: temp", "volumeMounts"},
		{"two volumes of one name", "dev", "StatefulSet/postgres", "        name: run\n", "        name: tmp\n", "volumes"},
		{"bad restart policy", "dev", "Job/postgres-init", "restartPolicy: OnFailure", "restartPolicy: Always", "restartPolicy"},
		{"no namespace", "production", "Service/edge", "  namespace: quire\n", "", "no namespace"},
		// Custom resources.
		{"no namespace of a scaler", "keda", "ScaledObject/edge", "  namespace: quire\n", "", "no namespace"},
		{"misspelled trigger", "keda", "ScaledObject/edge", "  triggers:", "  trigger:", "triggers"},
		{"unknown field of a monitor", "production", "ServiceMonitor/quire", "interval: 15s", "intervall: 15s", "unknown field"},
		{"alert without expression", "production", "PrometheusRule/quire", "alert: QuireNotReady", "alarm: QuireNotReady", "unknown field"},
		{"bad duration of an alert", "production", "PrometheusRule/quire", "for: 2m", "for: two minutes", "for"},
		// Pod security.
		{"root", "production", "Deployment/edge", "runAsNonRoot: true", "runAsNonRoot: false", "not restricted"},
		{"privileges", "production", "StatefulSet/billing", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "not restricted"},
		{"capabilities", "production", "Deployment/file", "            drop:\n            - ALL", "            drop:\n            - NET_RAW", "not restricted"},
		{"host folder", "production", "Deployment/lite", "      - emptyDir:\n          sizeLimit: 256Mi\n        name: tmp", "      - hostPath: {path: /}\n        name: tmp", "not restricted"},
		{"level of the namespace", "production", "Namespace/quire", "enforce: restricted", "enforce: baseline", "enforce"},
		{"writable image", "production", "Deployment/paste", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "writable root filesystem"},
		{"token", "production", "StatefulSet/nats", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "token"},
		// Names of things that do not exist, and this project's own rules.
		{"settings of another name", "production", "Deployment/edge", "name: edge-settings-", "name: edges-settings-", "there is no ConfigMap"},
		{"secret of another name", "production", "StatefulSet/billing", "name: quire-billing", "name: quire-bills", "there is no Secret"},
		{"key of another name", "production", "Deployment/paste", "key: QUIRE_POSTGRES_URL", "key: QUIRE_POSTGRESQL_URL", "has no key"},
		{"secret of another name in dev", "dev-mongo", "StatefulSet/mongodb", "secretName: mongodb-", "secretName: mongo-", "there is no Secret"},
		{"service account", "production", "Deployment/edge", "serviceAccountName: edge", "serviceAccountName: edges", "no service account"},
		{"autoscaler's target", "production", "HorizontalPodAutoscaler/lite", "    kind: Deployment\n    name: lite", "    kind: Deployment\n    name: light", "does not exist"},
		{"two autoscalers", "production", "HorizontalPodAutoscaler/lite", "    kind: Deployment\n    name: lite", "    kind: Deployment\n    name: paste", "2 autoscalers"},
		{"scaled object's target", "keda", "ScaledObject/paste", "    name: paste", "    name: pasta", "does not exist"},
		{"service's pods", "production", "Service/edge", "    app.kubernetes.io/name: edge", "    app.kubernetes.io/name: edges", "pods of 0 workloads"},
		{"service's port", "production", "Service/edge", "targetPort: http", "targetPort: https", "does not have"},
		{"budget's pods", "production", "PodDisruptionBudget/nats", "app.kubernetes.io/name: nats\n", "app.kubernetes.io/name: mats\n", "pods of 0 workloads"},
		{"stateful set's service", "production", "StatefulSet/billing", "serviceName: billing", "serviceName: bills", "does not exist"},
		{"ingress' service", "ingress", "Ingress/quire", "            name: edge\n", "            name: edges\n", "does not exist"},
		{"route's service", "production", "HTTPRoute/quire", "    - name: edge\n", "    - name: edges\n", "does not exist"},
		{"route's host", "production", "HTTPRoute/quire", "  - quire.example.com", "  - paste.example.com", "no listener for"},
		{"route's gateway", "production", "HTTPRoute/quire", "    sectionName: https", "    sectionName: tls", "no listener for"},
		{"gateway's certificate", "production", "Gateway/quire", "name: quire-tls", "name: quire-cert", "no Secret"},
		{"misspelled route", "production", "HTTPRoute/quire", "  parentRefs:", "  parentRef:", "parentRef"},
		{"certificate of another host", "ingress", "Ingress/quire", "  - host: quire.example.com", "  - host: paste.example.com", "without its certificate"},
		{"probe's port", "production", "StatefulSet/nats", "path: /healthz\n            port: monitor", "path: /healthz\n            port: monitors", "not declared"},
		{"policy's pods", "production", "NetworkPolicy/nats", "app.kubernetes.io/name: nats\n  policyTypes", "app.kubernetes.io/name: mats\n  policyTypes", "selects no pods"},
		{"policy's port", "production", "NetworkPolicy/nats", "port: 4222", "port: 4223", "has no port"},
		{"policy's peer", "dev", "NetworkPolicy/services-to-minio", "          app.kubernetes.io/name: minio", "          app.kubernetes.io/name: maxio", "a peer of a rule selects no pods"},
		{"nothing denied", "production", "NetworkPolicy/deny-by-default", "  - Egress\n", "", "denies by default"},
		{"monitor's services", "production", "ServiceMonitor/quire", "app.kubernetes.io/component: ops", "app.kubernetes.io/component: op", "does not watch"},
		{"monitor's port", "production", "ServiceMonitor/quire", "port: ops", "port: opts", "has no port"},
		{"alert's job", "production", "PrometheusRule/quire", `job="billing"`, `job="biling"`, "not a service"},
		{"alert's page", "production", "PrometheusRule/quire", "alert: QuireFoldRestarts", "alert: QuireFoldsRestart", "the runbook_url of"},
		{"alert's document", "production", "PrometheusRule/quire", "docs/runbook.md#quirenotready", "docs/runbooks.md#quirenotready", "the runbook_url of"},
		{"alert's namespace", "production", "PrometheusRule/quire", `namespace="quire", job="billing"`, `namespace="quirk", job="billing"`, "is about the namespace"},
		{"dashboard's job", "production", "ConfigMap/quire-dashboards", `job=\"billing\"`, `job=\"biling\"`, "not a service"},
		{"dashboards without the sidecar's label", "production", "ConfigMap/quire-dashboards", "grafana_dashboard:", "grafana:", "no ConfigMap has dashboards"},
		{"alert's CronJob", "backup", "PrometheusRule/quire", `cronjob="backup"`, `cronjob="backups"`, "names the CronJob"},
		{"misspelled field of a CronJob", "backup", "CronJob/backup", "schedule:", "schedules:", "unknown field"},
		{"schedule of a CronJob", "backup", "CronJob/backup", "schedule: 17 2 * * *", "schedule: at night", "schedule"},
		{"overlapping runs", "backup", "CronJob/backup", "concurrencyPolicy: Forbid", "concurrencyPolicy: Allow", "may overlap"},
		{"run without a deadline", "backup", "CronJob/backup", "activeDeadlineSeconds: 79200\n", "suspend: false\n", "a run that hangs"},
		{"CronJob as root", "backup", "CronJob/backup", "runAsNonRoot: true", "runAsNonRoot: false", "not restricted"},
		{"CronJob's key of a secret", "backup", "CronJob/backup", "key: BACKUP_TO", "key: BACK_UP_TO", "has no key"},
		{"CronJob's settings", "backup", "CronJob/backup", "name: settings-", "name: setting-", "there is no ConfigMap"},
		{"CronJob's service account", "backup", "CronJob/backup", "serviceAccountName: backup", "serviceAccountName: backups", "no service account"},
		{"CronJob that may not connect", "backup", "NetworkPolicy/backup", "port: 4222", "port: 6222", "CronJob/backup: may not connect to StatefulSet/nats"},
		{"CronJob that may not be heard", "backup", "NetworkPolicy/nats-from-backup", "port: 4222", "port: 6222", "CronJob/backup: may not connect to StatefulSet/nats"},
		{"service that may not connect", "production", "NetworkPolicy/services-to-nats", "- service", "- edge", "may not connect to StatefulSet/nats"},
		{"unknown setting", "production", "ConfigMap/settings-", "QUIRE_PARTITIONS:", "QUIRE_PARTITION:", "does not know the setting"},
		{"setting of another service", "production", "Deployment/edge", "name: GOMEMLIMIT", "name: QUIRE_MONGO_DATABASE", "does not know the setting"},
		{"secret in plain text", "production", "Deployment/edge", "        - name: QUIRE_SECRET\n          valueFrom:\n            secretKeyRef:\n              key: QUIRE_SECRET\n              name: quire-edge\n", "        - name: QUIRE_SECRET\n          value: tell-everybody\n", "must come from a secret"},
		{"key of the log in plain text", "production", "Deployment/archive", "        - name: QUIRE_CHECKPOINT_KEY\n          valueFrom:\n            secretKeyRef:\n              key: QUIRE_CHECKPOINT_KEY\n              name: checkpoint-key\n", "        - name: QUIRE_CHECKPOINT_KEY\n          value: tell-everybody\n", "must come from a secret"},
		{"published operators' port", "production", "Service/edge", "targetPort: http", "targetPort: ops", "publishes the operators' port"},
		{"tag latest", "production", "Deployment/edge", "quire/edge:0.1.0", "quire/edge:latest", "the tag latest"},
		{"no tag", "production", "Deployment/edge", "quire/edge:0.1.0", "quire/edge", "without a tag"},
		{"no tag, and a registry's port", "production", "Deployment/edge", "registry.example.com/quire/edge:0.1.0", "registry.example.com:5000/quire/edge", "without a tag"},
		{"image that production does not name", "production", "Deployment/edge", "registry.example.com/quire/edge:0.1.0", "quire/edge", "without a tag"},
		{"no tag of a store", "dev", "StatefulSet/postgres", "image: postgres:15.18", "image: postgres", "without a tag"},
		{"no tag of an init container", "production", "Deployment/edge", "      containers:\n", "      initContainers:\n      - image: busybox\n        name: wait\n      containers:\n", "without a tag"},
		{"published MinIO", "dev", "StatefulSet/minio", "image: quire/minio", "image: quay.io/minio/minio:RELEASE.2025-09-07T16-13-09Z", "an image that MinIO has published"},
		{"MinIO's client from elsewhere", "dev", "Job/minio-init", "image: quire/minio", "image: minio/mc:RELEASE.2025-08-13T08-35-41Z", "an image that MinIO has published"},
		{"pods on one node", "production", "StatefulSet/nats", "      topologySpreadConstraints:", "      tolerations: []\n      ignored:", "unknown field"},
		{"replicas beside an autoscaler", "production", "Deployment/edge", "  revisionHistoryLimit: 5", "  replicas: 3\n  revisionHistoryLimit: 5", "autoscaler sets too"},
	}
}

// TestPlantedFaultsAreFound: a check that never finds a fault would pass on sound overlays too.
func TestPlantedFaultsAreFound(t *testing.T) {
	known := map[string]k8scheck.Options{}
	for _, overlay := range []string{"dev", "dev-mongo", "production", "ingress", "keda", "backup"} {
		known[overlay] = options(t, overlay)
	}
	for _, plant := range plants() {
		t.Run(plant.name, func(t *testing.T) {
			objects := render(t, plant.overlay)
			planted := false
			for i, o := range objects {
				generated := strings.HasSuffix(plant.object, "-") && strings.HasPrefix(o.String(), plant.object)
				if o.String() != plant.object && !generated {
					continue
				}
				if !strings.Contains(string(o.YAML), plant.old) {
					t.Fatalf("%s no longer says %q", o, plant.old)
				}
				edited, err := k8scheck.Parse([]byte(strings.ReplaceAll(string(o.YAML), plant.old, plant.replacement)))
				if err != nil {
					t.Fatal(err)
				}
				objects[i], planted = edited, true
				break
			}
			if !planted {
				t.Fatalf("there is no %s", plant.object)
			}
			faults := k8scheck.Check(objects, known[plant.overlay])
			for _, fault := range faults {
				if strings.Contains(fault.String(), plant.found) {
					return
				}
			}
			t.Errorf("not found; found instead: %v", faults)
		})
	}
}
