package k8scheck

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"sigs.k8s.io/yaml"
)

// strategies are the API server's steps before it stores an object.
func strategies() map[string]rest.RESTCreateStrategy {
	return map[string]rest.RESTCreateStrategy{
		"ConfigMap": configmap.Strategy, "Namespace": namespace.Strategy, "Secret": secret.Strategy,
		"Service": service.Strategy, "ServiceAccount": serviceaccount.Strategy,
		"Deployment": deployment.Strategy, "StatefulSet": statefulset.Strategy, "Job": job.Strategy, "CronJob": cronjob.Strategy,
		"HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy, "PodDisruptionBudget": poddisruptionbudget.Strategy,
		"NetworkPolicy": networkpolicy.Strategy, "Ingress": ingress.Strategy,
	}
}

// decode reads an object strictly as its declared kind, and validates it as the API server would.
func (c *checker) decode(o *Object) {
	if group, _, ok := strings.Cut(fmt.Sprint(o.Fields["apiVersion"]), "/"); ok && c.options.CRDs.has(group) {
		for _, message := range c.options.CRDs.validate(o) {
			c.fault(o, "%s", message)
		}
		if nested(o.Fields, "metadata", "namespace") == "" {
			c.fault(o, "it has no namespace")
		}
		return
	}
	strict := serializer.NewCodecFactory(clientscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	decoded, _, err := strict.Decode(o.YAML, nil, nil)
	if err != nil {
		c.fault(o, "decode: %v", err)
		return
	}
	o.Typed = decoded.DeepCopyObject()
	strategy := strategies()[o.Kind]
	if strategy == nil {
		c.fault(o, "objects of this kind can't be checked")
		return
	}
	if err := admit(strategy, decoded); err != nil {
		c.fault(o, "%v", err)
	}
}

// admit runs the API server's steps for a new object.
func admit(strategy rest.RESTCreateStrategy, decoded runtime.Object) error {
	legacyscheme.Scheme.Default(decoded)
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(decoded, runtime.InternalGroupVersioner)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	gvk := decoded.GetObjectKind().GroupVersionKind()
	ctx := genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(genericapirequest.NewContext(), ""),
		&genericapirequest.RequestInfo{APIGroup: gvk.Group, APIVersion: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"})
	meta, ok := internal.(metav1.Object)
	if !ok {
		return fmt.Errorf("it has no metadata")
	}
	rest.FillObjectMetaSystemFields(meta)
	if strategy.NamespaceScoped() {
		if meta.GetNamespace() == "" {
			return fmt.Errorf("it has no namespace")
		}
		ctx = genericapirequest.WithNamespace(ctx, meta.GetNamespace())
	}
	if s, ok := internal.(*core.Service); ok && s.Spec.ClusterIP == core.ClusterIPNone {
		s.Spec.ClusterIPs = []string{core.ClusterIPNone} // as the registry does before it calls the strategy
	}
	return plain(rest.BeforeCreate(strategy, ctx, internal))
}

// plain lists the causes of a refusal.
func plain(err error) error {
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Details == nil {
		return err
	}
	var causes []string
	for _, cause := range status.Status().Details.Causes {
		causes = append(causes, cause.Field+": "+cause.Message)
	}
	return fmt.Errorf("refused: %s", strings.Join(causes, "; "))
}

// CRDs are custom resource definitions.
type CRDs struct {
	kinds map[runtimeschema.GroupVersionKind]*crd
}

type crd struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
}

// ReadCRDs reads the definitions in a folder.
func ReadCRDs(dir string) (*CRDs, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	all := &CRDs{kinds: map[runtimeschema.GroupVersionKind]*crd{}}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := all.add(text); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return all, nil
}

func (all *CRDs) add(text []byte) error {
	var external apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &external); err != nil {
		return err
	}
	for _, version := range external.Spec.Versions {
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return err
		}
		structural, err := schema.NewStructural(&props)
		if err != nil {
			return err
		}
		validator, _, err := validation.NewSchemaValidator(&props)
		if err != nil {
			return err
		}
		kind := runtimeschema.GroupVersionKind{Group: external.Spec.Group, Version: version.Name, Kind: external.Spec.Names.Kind}
		all.kinds[kind] = &crd{structural, validator}
	}
	return nil
}

func (all *CRDs) has(group string) bool {
	for kind := range all.kinds {
		if kind.Group == group {
			return true
		}
	}
	return false
}

func (all *CRDs) validate(o *Object) []string {
	gv, err := runtimeschema.ParseGroupVersion(fmt.Sprint(o.Fields["apiVersion"]))
	if err != nil {
		return []string{err.Error()}
	}
	definition := all.kinds[gv.WithKind(o.Kind)]
	if definition == nil {
		return []string{"no such kind: " + gv.WithKind(o.Kind).String()}
	}
	var faults []string
	for _, err := range validation.ValidateCustomResource(nil, o.Fields, definition.validator) {
		faults = append(faults, err.Error())
	}
	copied := runtime.DeepCopyJSON(jsonNumbers(o.Fields).(map[string]any))
	unknown := pruning.PruneWithOptions(copied, definition.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, field := range unknown {
		faults = append(faults, "unknown field "+field)
	}
	return faults
}

// jsonNumbers converts numbers to the types that DeepCopyJSON takes.
func jsonNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, inner := range v {
			copied[key] = jsonNumbers(inner)
		}
		return copied
	case []any:
		copied := make([]any, len(v))
		for i, inner := range v {
			copied[i] = jsonNumbers(inner)
		}
		return copied
	case int:
		return int64(v)
	}
	return value
}
