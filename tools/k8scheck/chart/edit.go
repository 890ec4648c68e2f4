package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// editor puts marks in the place of an object's values, and actions of the template in the place of the marks once the object is text.
type editor struct {
	node    *yaml.RNode
	actions []action
	err     error
}

// action is the text of the template that replaces a mark.
type action struct {
	text string
	how  form
}

type form int

const (
	scalar form = iota // a value on its line
	block              // a value of several lines, below its key
	line               // instead of the whole line, with its indentation
)

// edit does what overlays do to the objects of this kind and name.
func (e *editor) edit(kind, name string) {
	e.add(scalar, ".Release.Namespace", "metadata", "namespace")
	switch kind {
	case "Deployment", "StatefulSet":
		e.workload(name)
	case "Job":
		// Jobs are immutable, so each revision has its own.
		e.set(scalar, `printf "provision-%d" .Release.Revision`, "metadata", "name")
		e.pod(name, "spec", "template")
	case "CronJob":
		e.set(scalar, ".Values."+name+".schedule | quote", "spec", "schedule")
		e.pod(name, "spec", "jobTemplate", "spec", "template")
	case "HorizontalPodAutoscaler":
		e.set(scalar, service(name)+".minReplicas", "spec", "minReplicas")
		e.set(scalar, service(name)+".maxReplicas", "spec", "maxReplicas")
	case "ScaledObject":
		e.set(scalar, service(name)+".minReplicas", "spec", "minReplicaCount")
		e.set(scalar, ".Values.keda.maxReplicas."+name, "spec", "maxReplicaCount")
		for n := range e.find([]string{"spec", "triggers"}).Content() {
			if at := fmt.Sprint(n); e.find([]string{"spec", "triggers", at, "type"}).YNode().Value == "prometheus" {
				e.set(scalar, ".Values.keda.prometheus | quote", "spec", "triggers", at, "metadata", "serverAddress")
			}
		}
	case "Gateway":
		e.set(scalar, ".Values.gateway.className | quote", "spec", "gatewayClassName")
		e.set(scalar, ".Values.host | quote", "spec", "listeners", "[name=https]", "hostname")
		e.set(scalar, ".Values.host | quote", "spec", "listeners", "[name=http]", "hostname")
	case "HTTPRoute":
		e.set(scalar, ".Values.host | quote", "spec", "hostnames", "0")
	case "Ingress":
		e.set(scalar, ".Values.ingress.className | quote", "spec", "ingressClassName")
		e.set(scalar, ".Values.host | quote", "spec", "tls", "0", "hosts", "0")
		e.set(scalar, ".Values.host | quote", "spec", "rules", "0", "host")
	case "ServiceMonitor", "PrometheusRule":
		e.set(block, ".Values.monitoring.labels", "metadata", "labels")
	case "NetworkPolicy":
		e.policy(name)
	}
}

// service is the place of a service's values.
func service(name string) string { return ".Values.services." + name }

func (e *editor) workload(name string) {
	if name == "nats" {
		e.set(block, ".Values.nats.volume", "spec", "volumeClaimTemplates", "0", "spec")
		e.set(scalar, ".Values.nats.maxFileStore | quote", "spec", "template", "spec", "containers", "0", "env", "[name=NATS_MAX_FILE_STORE]", "value")
		e.pod(name, "spec", "template")
		return
	}
	if name == "billing" {
		e.set(scalar, service(name)+".replicas", "spec", "replicas")
	}
	container := []string{"spec", "template", "spec", "containers", "[name=service]"}
	e.set(scalar, service(name)+".goMemoryLimit | quote", slices.Concat(container, []string{"env", "[name=GOMEMLIMIT]", "value"})...)
	if name != "edge" && name != "archive" { // these have no read model
		e.set(line, fmt.Sprintf(`include "quire.store" (list . %q)`, name), slices.Concat(container, []string{"env", "[name=QUIRE_POSTGRES_URL]"})...)
	}
	e.pod(name, "spec", "template")
}

// pod edits a template of pods.
func (e *editor) pod(name string, at ...string) {
	spec := slices.Concat(at, []string{"spec"})
	values := service(name)
	switch name {
	case "nats":
		values = ".Values.nats"
		e.add(scalar, `include (print $.Template.BasePath "/made/nats-configuration.yaml") . | sha256sum`, slices.Concat(at, []string{"metadata", "annotations", "checksum/configuration"})...)
	case "backup", "provision", "generations":
		values = ".Values." + name
	default:
		e.add(scalar, `include (print $.Template.BasePath "/settings.yaml") . | sha256sum`, slices.Concat(at, []string{"metadata", "annotations", "checksum/configuration"})...)
	}
	container := slices.Concat(spec, []string{"containers", "0"})
	if image, found := strings.CutPrefix(yaml.GetValue(e.find(slices.Concat(container, []string{"image"}))), "quire/"); found {
		e.set(scalar, fmt.Sprintf(`include "quire.image" (list . %q)`, image), slices.Concat(container, []string{"image"})...)
	}
	e.set(block, values+".resources", slices.Concat(container, []string{"resources"})...)
	e.add(line, fmt.Sprintf(`include "quire.scheduling" (list . %s)`, values), slices.Concat(spec, []string{"tolerations"})...)
}

func (e *editor) policy(name string) {
	switch name {
	case "edge-from-ingress":
		e.set(scalar, ".Values.networks.proxiesNamespace | quote", "spec", "ingress", "0", "from", "0", "namespaceSelector", "matchLabels", "kubernetes.io/metadata.name")
	case "ops-from-monitoring":
		e.set(scalar, ".Values.networks.monitoringNamespace | quote", "spec", "ingress", "0", "from", "0", "namespaceSelector", "matchLabels", "kubernetes.io/metadata.name")
	case "services-to-postgres-outside":
		e.set(block, ".Values.networks.databases", "spec", "egress", "0", "to")
		e.set(scalar, `include "quire.storePort" .`, "spec", "egress", "0", "ports", "0", "port")
	case "services-to-s3-outside":
		e.set(block, ".Values.networks.s3", "spec", "egress", "0", "to")
	case "backup":
		e.set(block, ".Values.networks.databases", "spec", "egress", "1", "to")
		e.set(block, ".Values.networks.s3", "spec", "egress", "2", "to")
	}
}

// find returns a value, or notes that it is missing and returns nil.
func (e *editor) find(path []string) *yaml.RNode {
	node, err := e.node.Pipe(yaml.Lookup(path...))
	if err != nil || node == nil {
		e.fail("%v: not found (%v)", path, err)
		return nil
	}
	return node
}

// set puts an action in the place of a value or of an item of a list, which must be there.
func (e *editor) set(how form, text string, path ...string) {
	if node := e.find(path); node != nil {
		node.SetYNode(yaml.NewScalarRNode(e.mark(how, text)).YNode())
	}
}

// add makes a field with an action as its value, and the mappings around it.
func (e *editor) add(how form, text string, path ...string) {
	parent, last := path[:len(path)-1], path[len(path)-1]
	node, err := e.node.Pipe(yaml.LookupCreate(yaml.MappingNode, parent...))
	if err == nil {
		err = node.PipeE(yaml.SetField(last, yaml.NewScalarRNode(e.mark(how, text))))
	}
	if err != nil {
		e.fail("%v: %v", path, err)
	}
}

func (e *editor) mark(how form, text string) string {
	e.actions = append(e.actions, action{text, how})
	return fmt.Sprintf("@@%d@@", len(e.actions)-1)
}

func (e *editor) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

var marked = regexp.MustCompile(`(?m)^( *)(.*?)['"]?@@(\d+)@@['"]?\n`)

// fill replaces the marks by their actions.
func (e *editor) fill(text string) string {
	return marked.ReplaceAllStringFunc(text, func(whole string) string {
		found := marked.FindStringSubmatch(whole)
		indent, before := found[1], found[2]
		number, _ := strconv.Atoi(found[3]) // the pattern has digits alone
		a := e.actions[number]
		switch a.how {
		case block:
			return fmt.Sprintf("%s%s{{- toYaml %s | nindent %d }}\n", indent, before, a.text, len(indent)+2)
		case line:
			return fmt.Sprintf("%s{{- with %s }}{{ . | nindent %d }}{{- end }}\n", indent, a.text, len(indent))
		default:
			return fmt.Sprintf("%s%s{{ %s }}\n", indent, before, a.text)
		}
	})
}
