// Package k8scheck renders the overlays and finds their faults: objects refused by Kubernetes' types and validation or by the
// pod security level "restricted", and references to things that do not exist.
package k8scheck

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Object is one rendered object.
type Object struct {
	Kind, Name string
	YAML       []byte
	Fields     map[string]any
	Typed      runtime.Object // nil for a custom resource, or if it does not decode
}

// String names the object in faults.
func (o *Object) String() string { return o.Kind + "/" + o.Name }

// Fault is one mistake in an object.
type Fault struct {
	Object  string
	Message string
}

func (f Fault) String() string { return f.Object + ": " + f.Message }

// Options list the things outside of the objects that they may refer to.
type Options struct {
	// Secrets that an operator creates, with their keys.
	Secrets map[string][]string
	// Settings that each service reads, by the service's name.
	Settings map[string]map[string]bool
	// Anchors of the headings of docs/runbook.md.
	Anchors map[string]bool
	// Built is the beginning of the names of images that skaffold builds, and gives their tags; empty: none.
	Built string
	// CRDs by group and kind.
	CRDs *CRDs
}

// Render returns the objects of an overlay.
func Render(fs filesys.FileSystem, path string) ([]*Object, error) {
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsRootOnly
	rendered, err := krusty.MakeKustomizer(options).Run(fs, path)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", path, err)
	}
	var objects []*Object
	for _, r := range rendered.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", path, err)
		}
		object, err := Parse(text)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// Parse reads one object. A duplicate field is an error.
func Parse(text []byte) (*Object, error) {
	o := &Object{YAML: text}
	if err := yaml.UnmarshalStrict(text, &o.Fields); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	o.Kind, _ = o.Fields["kind"].(string)
	if meta, ok := o.Fields["metadata"].(map[string]any); ok {
		o.Name, _ = meta["name"].(string)
	}
	return o, nil
}

// Check returns all faults of objects that are applied together.
func Check(objects []*Object, options Options) []Fault {
	c := &checker{objects: objects, options: options}
	for _, o := range objects {
		c.decode(o)
	}
	c.collect()
	c.security()
	c.workloads()
	c.pods()
	c.services()
	c.autoscalers()
	c.networks()
	c.journals()
	c.monitoring()
	return c.faults
}

type checker struct {
	objects []*Object
	options Options
	faults  []Fault
	work    []*workload
}

func (c *checker) fault(o fmt.Stringer, format string, args ...any) {
	c.faults = append(c.faults, Fault{o.String(), fmt.Sprintf(format, args...)})
}

// workload is an object that makes pods.
type workload struct {
	*Object
	template corev1.PodTemplateSpec
	selector *metav1.LabelSelector // nil for a Job or a CronJob
	claims   []corev1.PersistentVolumeClaim
	replicas *int32
}

// service reports whether the workload is one of Quire's services, not a store.
func (w *workload) service() bool {
	return w.template.Labels["app.kubernetes.io/component"] == "service"
}

func (w *workload) app() string { return w.template.Labels["app.kubernetes.io/name"] }

func (w *workload) hasVariable(name string) bool {
	return slices.ContainsFunc(w.template.Spec.Containers, func(container corev1.Container) bool {
		return slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	})
}

// ports returns the ports that the pods' containers declare.
func (w *workload) ports() []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for _, container := range w.template.Spec.Containers {
		ports = append(ports, container.Ports...)
	}
	return ports
}

func (c *checker) collect() {
	for _, o := range c.objects {
		switch t := o.Typed.(type) {
		case *appsv1.Deployment:
			c.work = append(c.work, &workload{o, t.Spec.Template, t.Spec.Selector, nil, t.Spec.Replicas})
		case *appsv1.StatefulSet:
			c.work = append(c.work, &workload{o, t.Spec.Template, t.Spec.Selector, t.Spec.VolumeClaimTemplates, t.Spec.Replicas})
		case *batchv1.Job:
			c.work = append(c.work, &workload{o, t.Spec.Template, nil, nil, nil})
		case *batchv1.CronJob:
			c.work = append(c.work, &workload{o, t.Spec.JobTemplate.Spec.Template, nil, nil, nil})
		}
	}
}

// find returns the object of a kind and name, or nil.
func (c *checker) find(kind, name string) *Object {
	for _, o := range c.objects {
		if o.Kind == kind && o.Name == name {
			return o
		}
	}
	return nil
}

// typed returns all objects of one type.
func typed[T runtime.Object](c *checker) []struct {
	*Object
	T T
} {
	var found []struct {
		*Object
		T T
	}
	for _, o := range c.objects {
		if t, ok := o.Typed.(T); ok {
			found = append(found, struct {
				*Object
				T T
			}{o, t})
		}
	}
	return found
}

// selected returns the workloads whose pods match a selector.
func (c *checker) selected(o fmt.Stringer, selector *metav1.LabelSelector) []*workload {
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		c.fault(o, "selector: %v", err)
		return nil
	}
	var found []*workload
	for _, w := range c.work {
		if matcher.Matches(labels.Set(w.template.Labels)) {
			found = append(found, w)
		}
	}
	return found
}
