//go:build cluster

package k8scheck_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	resourcev1 "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"quire.dev/tools/k8scheck"
)

const namespace = "quire"

func codecs() runtime.NegotiatedSerializer { return scheme.Codecs.WithoutConversion() }
func noVersion() *schema.GroupVersion      { return &schema.GroupVersion{} }

// cluster is a control plane with fake nodes.
type cluster struct {
	*kubernetes.Clientset
	config *rest.Config
	paused atomic.Bool // while true, no pod is given a node
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := controlPlane(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Clientset: client, config: config}
	for i := range 4 {
		name := fmt.Sprintf("node-%d", i)
		capacity := corev1.ResourceList{}
		for resource, amount := range map[corev1.ResourceName]string{"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"} {
			capacity[resource] = resourcev1.MustParse(amount)
		}
		_, err := c.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
			Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.schedule(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// schedule binds each pod without a node to the next node that takes pods. It stands in for Kubernetes' scheduler, whose
// choices are not tested here.
func (c *cluster) schedule(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for next := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{FieldSelector: "spec.unschedulable=false"})
		if err != nil || len(nodes.Items) == 0 || c.paused.Load() {
			continue
		}
		pods, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		if err != nil {
			continue
		}
		for _, pod := range pods.Items {
			next++
			// The pod may be gone or bound by now. If it is neither, the next round tries again.
			_ = c.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
				Target:     corev1.ObjectReference{Kind: "Node", Name: nodes.Items[next%len(nodes.Items)].Name},
			}, metav1.CreateOptions{})
		}
	}
}

// apply applies objects as kubectl apply --server-side does.
func (c *cluster) apply(t *testing.T, texts [][]byte) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(c.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, text := range texts {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			t.Fatal(err)
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		text, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		force := true
		_, err = resource.Patch(t.Context(), object.GetName(), "application/apply-patch+yaml", text,
			metav1.PatchOptions{FieldManager: "k8s-test", Force: &force, FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Errorf("apply %s %s: %v", kind.Kind, object.GetName(), err)
		}
	}
}

// definitions applies the CRDs and waits until their kinds are served.
func (c *cluster) definitions(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob("testdata/crds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var texts [][]byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	c.apply(t, texts)
	for group, kind := range map[string]string{"keda.sh/v1alpha1": "ScaledObject", "monitoring.coreos.com/v1": "PrometheusRule"} {
		eventually(t, kind, func(context.Context) string {
			served, err := c.Discovery().ServerResourcesForGroupVersion(group)
			if err != nil {
				return err.Error()
			}
			for _, resource := range served.APIResources {
				if resource.Kind == kind {
					return ""
				}
			}
			return "it is not served"
		})
	}
}

func TestClusterTakesTheOverlays(t *testing.T) {
	for _, overlay := range []string{"dev", "production", "keda"} {
		t.Run(overlay, func(t *testing.T) {
			c := newCluster(t)
			c.definitions(t)
			objects := render(t, overlay)
			var texts [][]byte
			for _, o := range objects {
				texts = append(texts, o.YAML)
			}
			c.apply(t, texts)
			c.apply(t, texts) // a second time: no fixed field may change
			if t.Failed() {
				return
			}
			c.rolledOut(t, overlay)
			c.budgets(t)
			if overlay != "keda" {
				c.autoscalers(t)
			}
			if overlay == "production" {
				c.drain(t)
			}
			c.forbids(t, objects)
		})
	}
}

// rolledOut waits for every pod of every workload.
func (c *cluster) rolledOut(t *testing.T, overlay string) {
	t.Helper()
	least := map[string]int32{"dev": 2, "production": 2, "keda": 1}[overlay]
	eventually(t, "pods", func(ctx context.Context) string {
		deployments, err := c.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(deployments.Items) != 5 {
			return fmt.Sprint(len(deployments.Items), " deployments, ", err)
		}
		for _, d := range deployments.Items {
			wanted := max(least, *d.Spec.Replicas)
			if d.Name == "archive" {
				wanted = 1 // it is not scaled
			}
			if d.Status.AvailableReplicas < wanted || d.Status.ObservedGeneration < d.Generation {
				return fmt.Sprintf("%s has %d of %d pods: %v", d.Name, d.Status.AvailableReplicas, *d.Spec.Replicas, d.Status.Conditions)
			}
		}
		sets, err := c.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(sets.Items) < 2 {
			return fmt.Sprint(len(sets.Items), " stateful sets, ", err)
		}
		for _, s := range sets.Items {
			if s.Status.ReadyReplicas != *s.Spec.Replicas {
				return fmt.Sprintf("%s has %d of %d pods", s.Name, s.Status.ReadyReplicas, *s.Spec.Replicas)
			}
		}
		jobs, err := c.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, j := range jobs.Items {
			if j.Status.Succeeded != 1 {
				return j.Name + " has not succeeded"
			}
		}
		return ""
	})
	pods, err := c.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pods", len(pods.Items))
}

// budgets waits until each budget lets one pod go: all pods are healthy, and no budget protects all of them.
func (c *cluster) budgets(t *testing.T) {
	t.Helper()
	eventually(t, "disruption budgets", func(ctx context.Context) string {
		budgets, err := c.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(budgets.Items) < 6 {
			return fmt.Sprint(len(budgets.Items), " budgets, ", err)
		}
		for _, b := range budgets.Items {
			if b.Status.DisruptionsAllowed != 1 || b.Status.ExpectedPods == 0 {
				return fmt.Sprintf("%s allows the eviction of %d of %d pods", b.Name, b.Status.DisruptionsAllowed, b.Status.ExpectedPods)
			}
		}
		return ""
	})
}

// autoscalers waits until each has found its target and holds its minimum. There are no CPU figures here.
func (c *cluster) autoscalers(t *testing.T) {
	t.Helper()
	eventually(t, "autoscalers", func(ctx context.Context) string {
		scalers, err := c.AutoscalingV2().HorizontalPodAutoscalers(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(scalers.Items) != 4 {
			return fmt.Sprint(len(scalers.Items), " autoscalers, ", err)
		}
		for _, h := range scalers.Items {
			able := false
			for _, condition := range h.Status.Conditions {
				able = able || condition.Type == "AbleToScale" && condition.Status == corev1.ConditionTrue
			}
			if !able || h.Status.CurrentReplicas < *h.Spec.MinReplicas {
				return fmt.Sprintf("%s: %d replicas, %v", h.Name, h.Status.CurrentReplicas, h.Status.Conditions)
			}
		}
		return ""
	})
}

// drain evicts one billing pod and then the other. The second must be refused until the first is back.
func (c *cluster) drain(t *testing.T) {
	t.Helper()
	node := podOf(t, c, "billing-0").Spec.NodeName
	patch := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := c.CoreV1().Nodes().Patch(t.Context(), node, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.paused.Store(true)
	before := podOf(t, c, "billing-0").UID
	if err := c.evict(t.Context(), "billing-0"); err != nil {
		t.Fatalf("evict billing-0: %v", err)
	}
	eventually(t, "a new billing-0", func(ctx context.Context) string {
		pod, err := c.CoreV1().Pods(namespace).Get(ctx, "billing-0", metav1.GetOptions{})
		if err != nil || pod.UID == before {
			return fmt.Sprint("not yet: ", err)
		}
		return ""
	})
	if err := c.evict(t.Context(), "billing-1"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the last pod of billing may be evicted: %v", err)
	}
	c.paused.Store(false)
	eventually(t, "the second eviction", func(ctx context.Context) string {
		if err := c.evict(ctx, "billing-1"); err != nil {
			return err.Error()
		}
		return ""
	})
	eventually(t, "both pods of billing", func(ctx context.Context) string {
		set, err := c.AppsV1().StatefulSets(namespace).Get(ctx, "billing", metav1.GetOptions{})
		if err != nil || set.Status.ReadyReplicas != *set.Spec.Replicas {
			return fmt.Sprint(readyOf(set), " ready, ", err)
		}
		for _, name := range []string{"billing-0", "billing-1"} {
			if pod, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil || pod.Spec.NodeName == node {
				return fmt.Sprint(name, " is on the drained node, ", err)
			}
		}
		return ""
	})
}

func readyOf(set *appsv1.StatefulSet) int32 {
	if set == nil {
		return 0
	}
	return set.Status.ReadyReplicas
}

func podOf(t *testing.T, c *cluster, name string) *corev1.Pod {
	t.Helper()
	pod, err := c.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (c *cluster) evict(ctx context.Context, name string) error {
	return c.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}})
}

// forbids checks that the namespace refuses a pod that is not restricted.
func (c *cluster) forbids(t *testing.T, objects []*k8scheck.Object) {
	t.Helper()
	_, err := c.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "root"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "root", Image: "any"}}},
	}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("a pod that is not restricted is created among %d objects: %v", len(objects), err)
	}
}
