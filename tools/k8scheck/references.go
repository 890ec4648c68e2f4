package k8scheck

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// services checks that Services, Ingresses and PodDisruptionBudgets lead to existing pods and ports.
func (c *checker) services() {
	for _, s := range typed[*corev1.Service](c) {
		pods := c.selected(s, &metav1.LabelSelector{MatchLabels: s.T.Spec.Selector})
		if len(pods) != 1 {
			c.fault(s, "selects the pods of %d workloads", len(pods))
		}
		for _, port := range s.T.Spec.Ports {
			for _, w := range pods {
				if !hasPort(w.ports(), port.TargetPort) {
					c.fault(s, "port %s leads to %s, which %s does not have", port.Name, port.TargetPort.String(), w)
				}
				if port.TargetPort.String() == "ops" && s.T.Spec.ClusterIP != corev1.ClusterIPNone {
					c.fault(s, "publishes the operators' port")
				}
			}
		}
	}
	for _, i := range typed[*networkingv1.Ingress](c) {
		for _, rule := range i.T.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				c.backend(i, path.Backend.Service)
			}
		}
		for _, tls := range i.T.Spec.TLS {
			if _, ok := c.data("Secret", tls.SecretName); !ok {
				c.fault(i, "there is no Secret %q", tls.SecretName)
			}
			for _, rule := range i.T.Spec.Rules {
				if !slices.Contains(tls.Hosts, rule.Host) {
					c.fault(i, "%s is served without its certificate", rule.Host)
				}
			}
		}
	}
	c.routes()
	budgets := map[*workload]int{}
	for _, b := range typed[*policyv1.PodDisruptionBudget](c) {
		pods := c.selected(b, b.T.Spec.Selector)
		if len(pods) != 1 {
			c.fault(b, "protects the pods of %d workloads", len(pods))
		}
		for _, w := range pods {
			budgets[w]++
		}
	}
	for _, w := range c.work {
		if w.selector != nil && (w.replicas == nil || *w.replicas > 1) && budgets[w] != 1 {
			c.fault(w, "has %d disruption budgets", budgets[w])
		}
	}
}

// gateway is what is checked of a Gateway, and route of an HTTPRoute. The schemas check the rest.
type gateway struct {
	Spec struct {
		Listeners []struct {
			Name, Hostname string
			TLS            struct{ CertificateRefs []struct{ Name string } }
		}
	}
}

type route struct {
	Spec struct {
		ParentRefs []struct{ Name, SectionName string }
		Hostnames  []string
		Rules      []struct {
			BackendRefs []struct {
				Name string
				Port int32
			}
		}
	}
}

// routes checks that HTTPRoutes belong to a listener of a Gateway with their hosts, and lead to existing ports.
func (c *checker) routes() {
	hosts := map[[3]string]bool{} // gateway, listener, host
	for _, o := range c.objects {
		if o.Kind != "Gateway" {
			continue
		}
		var g gateway
		if err := yaml.Unmarshal(o.YAML, &g); err != nil {
			c.fault(o, "%v", err)
		}
		for _, l := range g.Spec.Listeners {
			hosts[[3]string{o.Name, l.Name, l.Hostname}] = true
			for _, ref := range l.TLS.CertificateRefs {
				if _, ok := c.data("Secret", ref.Name); !ok {
					c.fault(o, "there is no Secret %q", ref.Name)
				}
			}
		}
	}
	for _, o := range c.objects {
		if o.Kind != "HTTPRoute" {
			continue
		}
		var r route
		if err := yaml.Unmarshal(o.YAML, &r); err != nil {
			c.fault(o, "%v", err)
		}
		for _, parent := range r.Spec.ParentRefs {
			for _, host := range r.Spec.Hostnames {
				if !hosts[[3]string{parent.Name, parent.SectionName, host}] {
					c.fault(o, "gateway %q has no listener for %s", parent.Name, host)
				}
			}
		}
		for _, rule := range r.Spec.Rules {
			for _, to := range rule.BackendRefs {
				c.backend(o, &networkingv1.IngressServiceBackend{Name: to.Name, Port: networkingv1.ServiceBackendPort{Number: to.Port}})
			}
		}
	}
}

func (c *checker) backend(i fmt.Stringer, backend *networkingv1.IngressServiceBackend) {
	for _, s := range typed[*corev1.Service](c) {
		if s.Name != backend.Name {
			continue
		}
		for _, port := range s.T.Spec.Ports {
			if port.Name == backend.Port.Name && port.Name != "" || port.Port == backend.Port.Number {
				return
			}
		}
	}
	c.fault(i, "leads to port %s%d of service %q, which does not exist", backend.Port.Name, backend.Port.Number, backend.Name)
}

// autoscalers checks that each Deployment has one autoscaler, of either kind, or a fixed number of replicas, and that each autoscaler has its target.
func (c *checker) autoscalers() {
	scalers := map[string]int{}
	for _, h := range typed[*autoscalingv2.HorizontalPodAutoscaler](c) {
		target := h.T.Spec.ScaleTargetRef
		c.scales(h, target.Kind, target.Name, scalers)
		if h.T.Spec.MinReplicas == nil || *h.T.Spec.MinReplicas < 2 {
			c.fault(h, "allows a single replica")
		}
	}
	for _, o := range c.objects {
		if o.Kind != "ScaledObject" {
			continue
		}
		spec, _ := o.Fields["spec"].(map[string]any)
		kind := nested(spec, "scaleTargetRef", "kind")
		if kind == "" {
			kind = "Deployment"
		}
		c.scales(o, kind, nested(spec, "scaleTargetRef", "name"), scalers)
	}
	for _, w := range c.work {
		if fixed := w.replicas != nil && scalers[w.String()] == 0; w.Kind == "Deployment" && !fixed && scalers[w.String()] != 1 {
			c.fault(w, "has %d autoscalers", scalers[w.String()])
		}
		if scalers[w.String()] > 0 && w.replicas != nil {
			c.fault(w, "sets a number of replicas that its autoscaler sets too")
		}
	}
}

func (c *checker) scales(o fmt.Stringer, kind, name string, scalers map[string]int) {
	if c.find(kind, name) == nil {
		c.fault(o, "scales %s %q, which does not exist", kind, name)
	}
	scalers[kind+"/"+name]++
}

// networks checks that everything is denied by default, and that policies allow only pods and ports that exist.
func (c *checker) networks() {
	var deny bool
	for _, p := range typed[*networkingv1.NetworkPolicy](c) {
		spec := p.T.Spec
		everything := len(spec.PodSelector.MatchLabels) == 0 && len(spec.PodSelector.MatchExpressions) == 0
		if everything && len(spec.Ingress) == 0 && len(spec.Egress) == 0 && len(spec.PolicyTypes) == 2 {
			deny = true
		}
		pods := c.selected(p, &spec.PodSelector)
		if len(pods) == 0 {
			c.fault(p, "selects no pods")
		}
		for _, rule := range spec.Ingress {
			c.policyPorts(p, pods, rule.Ports)
			c.policyPeers(p, rule.From)
		}
		for _, rule := range spec.Egress {
			c.policyPorts(p, c.policyPeers(p, rule.To), rule.Ports)
		}
	}
	if !deny {
		c.fault(&Object{Kind: "NetworkPolicy"}, "no policy denies by default")
	}
}

// journals checks that every pod with a URL of NATS may connect to the servers, if they are in the overlay.
func (c *checker) journals() {
	for _, to := range c.work {
		if to.app() != "nats" {
			continue
		}
		for _, from := range c.work {
			if from.hasVariable("QUIRE_NATS_URL") && !c.admitted(from, to, intstr.FromInt32(4222)) {
				c.fault(from, "may not connect to %s: a NetworkPolicy must admit it on either side", to)
			}
		}
	}
}

// admitted reports whether policies let pods connect to a port of others, on both sides.
func (c *checker) admitted(from, to *workload, port intstr.IntOrString) bool {
	var out, in bool
	for _, p := range typed[*networkingv1.NetworkPolicy](c) {
		pods := c.selected(p, &p.T.Spec.PodSelector)
		for _, rule := range p.T.Spec.Egress {
			out = out || slices.Contains(pods, from) && c.allows(p, rule.To, rule.Ports, to, port)
		}
		for _, rule := range p.T.Spec.Ingress {
			in = in || slices.Contains(pods, to) && c.allows(p, rule.From, rule.Ports, from, port)
		}
	}
	return out && in
}

func (c *checker) allows(p fmt.Stringer, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, w *workload, port intstr.IntOrString) bool {
	return slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		return isLocal(peer) && slices.Contains(c.selected(p, peer.PodSelector), w)
	}) && slices.ContainsFunc(ports, func(allowed networkingv1.NetworkPolicyPort) bool { return allowed.Port != nil && *allowed.Port == port })
}

// isLocal reports whether a peer is pods of this namespace.
func isLocal(peer networkingv1.NetworkPolicyPeer) bool {
	return peer.PodSelector != nil && peer.NamespaceSelector == nil
}

// policyPeers returns the workloads of peers in this namespace.
func (c *checker) policyPeers(p fmt.Stringer, peers []networkingv1.NetworkPolicyPeer) []*workload {
	if len(peers) == 0 {
		c.fault(p, "a rule names no peers, which allows all")
	}
	var all []*workload
	for _, peer := range peers {
		if !isLocal(peer) {
			continue
		}
		found := c.selected(p, peer.PodSelector)
		if len(found) == 0 {
			c.fault(p, "a peer of a rule selects no pods")
		}
		all = append(all, found...)
	}
	return all
}

func (c *checker) policyPorts(p fmt.Stringer, pods []*workload, ports []networkingv1.NetworkPolicyPort) {
	if len(ports) == 0 {
		c.fault(p, "a rule names no ports, which allows all")
	}
	for _, port := range ports {
		for _, w := range pods {
			if port.Port == nil || !hasPort(w.ports(), *port.Port) {
				c.fault(p, "%s has no port %v", w, value(port.Port))
			}
		}
	}
}

func value(port *intstr.IntOrString) string {
	if port == nil {
		return "at all"
	}
	return port.String()
}

// monitoring checks that ServiceMonitors find services, and that alerts and dashboards name jobs and pages that exist. The
// module promql checks their expressions.
func (c *checker) monitoring() {
	dashboards := 0
	for _, o := range c.objects {
		switch o.Kind {
		case "ConfigMap":
			dashboards += c.dashboards(o)
		case "ServiceMonitor":
			c.serviceMonitor(o)
		case "PrometheusRule":
			c.rules(o)
		}
	}
	for _, o := range c.objects {
		if o.Kind == "PrometheusRule" && dashboards == 0 {
			c.fault(o, "no ConfigMap has dashboards for Grafana's sidecar")
		}
	}
}

// dashboards checks those in a ConfigMap that Grafana's sidecar picks up, and returns their number.
func (c *checker) dashboards(o *Object) int {
	settings, ok := o.Typed.(*corev1.ConfigMap)
	if !ok || settings.Labels["grafana_dashboard"] != "1" {
		return 0
	}
	for file, text := range settings.Data {
		c.jobs(o, file, strings.ReplaceAll(text, `\"`, `"`))
	}
	return len(settings.Data)
}

var (
	jobMatcher     = regexp.MustCompile(`\bjob=~?"([^"$]+)"`)
	cronJobMatcher = regexp.MustCompile(`\bcronjob="([^"]+)"`)
)

// jobs checks that the jobs in an expression are services, and its CronJobs exist if the overlay has any: they are optional.
func (c *checker) jobs(o *Object, where, expression string) {
	for _, match := range jobMatcher.FindAllStringSubmatch(expression, -1) {
		for name := range strings.SplitSeq(match[1], "|") {
			if c.find("Service", name) == nil {
				c.fault(o, "%s names the job %q, which is not a service", where, name)
			}
		}
	}
	for _, match := range cronJobMatcher.FindAllStringSubmatch(expression, -1) {
		if len(typed[*batchv1.CronJob](c)) > 0 && c.find("CronJob", match[1]) == nil {
			c.fault(o, "%s names the CronJob %q, which does not exist", where, match[1])
		}
	}
}

func (c *checker) serviceMonitor(o *Object) {
	var monitor struct {
		Spec struct {
			Selector  metav1.LabelSelector `json:"selector"`
			Endpoints []struct {
				Port string `json:"port"`
			} `json:"endpoints"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(o.YAML, &monitor); err != nil {
		c.fault(o, "%v", err)
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil {
		c.fault(o, "selector: %v", err)
		return
	}
	watched := map[string]bool{}
	for _, s := range typed[*corev1.Service](c) {
		if !selector.Matches(labels.Set(s.T.Labels)) {
			continue
		}
		for _, endpoint := range monitor.Spec.Endpoints {
			if !slices.ContainsFunc(s.T.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == endpoint.Port }) {
				c.fault(o, "%s has no port %q", s, endpoint.Port)
			}
		}
		for _, w := range c.selected(s, &metav1.LabelSelector{MatchLabels: s.T.Spec.Selector}) {
			watched[w.app()] = true
		}
	}
	for _, w := range c.work {
		if w.service() && !watched[w.app()] {
			c.fault(o, "does not watch %s", w)
		}
	}
}

// runbook is the page of the alerts' headings.
const runbook = "https://github.com/OWNER/quire/blob/main/docs/runbook.md"

var namespaceMatcher = regexp.MustCompile(`namespace="([^"]+)"`)

func (c *checker) rules(o *Object) {
	var rule struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			Groups []struct {
				Rules []struct {
					Alert       string            `json:"alert"`
					Record      string            `json:"record"`
					Expr        string            `json:"expr"`
					Labels      map[string]string `json:"labels"`
					Annotations map[string]string `json:"annotations"`
				} `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(o.YAML, &rule); err != nil {
		c.fault(o, "%v", err)
		return
	}
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			c.jobs(o, r.Alert+r.Record, r.Expr)
			for _, match := range namespaceMatcher.FindAllStringSubmatch(r.Expr, -1) {
				if match[1] != rule.Metadata.Namespace {
					c.fault(o, "%s is about the namespace %q, not %q", r.Alert+r.Record, match[1], rule.Metadata.Namespace)
				}
			}
			if r.Record != "" {
				continue
			}
			if !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
				c.fault(o, "%s has the severity %q, not page or ticket", r.Alert, r.Labels["severity"])
			}
			page, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
			if !c.options.Anchors[anchor] || anchor != strings.ToLower(r.Alert) || page != runbook {
				c.fault(o, "the runbook_url of %s is not the heading with its name in %s", r.Alert, runbook)
			}
		}
	}
}
