package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// Other is an object of an unknown kind, which apparently makes no pods of its own.
type Other struct {
	// Kind and Name identify the object.
	Kind, Name string

	content any
}

// Mentions reports whether the object has a field with this value, for example a field that names what a controller
// makes.
func (o *Other) Mentions(value string) bool { return mentions(o.content, value) }

func mentions(content any, value string) bool {
	switch c := content.(type) {
	case string:
		return c == value
	case []any:
		return slices.ContainsFunc(c, func(one any) bool { return mentions(one, value) })
	case map[string]any:
		for _, one := range c {
			if mentions(one, value) {
				return true
			}
		}
	}
	return false
}

// addOther adds an object of an unknown kind. It refuses objects with pod templates: only their controller knows the
// number of pods, and counting one pod would be wrong.
func (f *File) addOther(h *header, data []byte) error {
	var content any
	if err := json.Unmarshal(data, &content); err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	if path := podTemplateIn(content, ""); path != "" {
		return fmt.Errorf("it creates pods of %s; this command does not know how many. Write them as a Deployment, a Job or Pods", path)
	}
	f.Others = append(f.Others, Other{Kind: h.Kind, Name: h.Metadata.Name, content: content})
	return nil
}

// podTemplateIn returns the path of the first pod template in an object, "" if there is none.
func podTemplateIn(content any, path string) string {
	switch c := content.(type) {
	case []any:
		for i, one := range c {
			if found := podTemplateIn(one, fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	case map[string]any:
		if spec, is := c["spec"].(map[string]any); is {
			if _, has := spec["containers"].([]any); has {
				return strings.TrimPrefix(path, ".")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(c)) {
			if found := podTemplateIn(c[name], path+"."+name); found != "" {
				return found
			}
		}
	}
	return ""
}

// jobSet has the fields of a JobSet that determine the number of pods (jobset.x-k8s.io).
type jobSet struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ReplicatedJobs []struct {
			Name     string          `json:"name"`
			Replicas *int32          `json:"replicas"`
			Template json.RawMessage `json:"template"`
		} `json:"replicatedJobs"`
	} `json:"spec"`
}

// addJobSet adds the pods of each replicated job: the parallel pods of all its replicas.
func (f *File) addJobSet(h *header, data []byte) error {
	var set jobSet
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(data, &set); err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	for i := range set.Spec.ReplicatedJobs {
		jobs := &set.Spec.ReplicatedJobs[i]
		path := fmt.Sprintf("spec.replicatedJobs[%d].template", i)
		template, err := inPart[batchv1.JobTemplateSpec](jobs.Template, path)
		if err != nil {
			return err
		}
		meta := set.ObjectMeta
		meta.Name += "-" + jobs.Name
		if err := f.addWorkload(h.Kind, &meta, &template.Spec.Template, number(jobs.Replicas, 1)*atOnce(&template.Spec), path+".spec.template"); err != nil {
			return err
		}
	}
	return nil
}

// leaderWorkerSet has the fields of a LeaderWorkerSet that determine the number of pods (leaderworkerset.x-k8s.io).
type leaderWorkerSet struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas             *int32 `json:"replicas"`
		LeaderWorkerTemplate struct {
			Size           *int32          `json:"size"`
			LeaderTemplate json.RawMessage `json:"leaderTemplate"`
			WorkerTemplate json.RawMessage `json:"workerTemplate"`
		} `json:"leaderWorkerTemplate"`
	} `json:"spec"`
}

// addLeaderWorkerSet adds the leader and the workers of each replica. Without a leaderTemplate, the leader is like
// the workers.
func (f *File) addLeaderWorkerSet(h *header, data []byte) error {
	var set leaderWorkerSet
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(data, &set); err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	const at = "spec.leaderWorkerTemplate."
	parts := &set.Spec.LeaderWorkerTemplate
	replicas, workers := number(set.Spec.Replicas, 1), number(parts.Size, 1)
	if replicas < 0 || workers < 1 {
		return errors.New("an API server would refuse it: spec.replicas has to be 0 or more, and spec.leaderWorkerTemplate.size 1 or more")
	}
	if len(parts.LeaderTemplate) > 0 {
		template, err := inPart[v1.PodTemplateSpec](parts.LeaderTemplate, at+"leaderTemplate")
		if err != nil {
			return err
		}
		leaders := set.ObjectMeta
		leaders.Name += "-leader"
		if err := f.addWorkload(h.Kind, &leaders, template, replicas, at+"leaderTemplate"); err != nil {
			return err
		}
		workers--
	}
	template, err := inPart[v1.PodTemplateSpec](parts.WorkerTemplate, at+"workerTemplate")
	if err != nil {
		return err
	}
	return f.addWorkload(h.Kind, &set.ObjectMeta, template, replicas*workers, at+"workerTemplate")
}

// inPart decodes one part of an object.
func inPart[T any](data []byte, path string) (*T, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("%s is missing", path)
	}
	one := new(T)
	if err := strictly(data, one); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return one, nil
}

// strictly decodes like a strict API server: field names are case-sensitive, unique and known. It refuses quantities
// with endless digits before they are parsed.
func strictly(data []byte, into any) error {
	if err := quantity.CheckJSON(data, reflect.TypeOf(into).Elem(), quantity.IsEndless); err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	unknown, err := strictjson.UnmarshalStrict(data, into)
	if err != nil {
		return mistyped(err)
	}
	if len(unknown) > 0 {
		return misnamed(unknown)
	}
	return nil
}

// misnamed returns an error about unknown and duplicate fields.
func misnamed(unknown []error) error {
	var texts []string
	for _, err := range unknown {
		texts = append(texts, err.Error())
	}
	return fmt.Errorf("%s; capitals count, and kubectl explain shows where each field goes", strings.Join(texts, "; "))
}

// mistyped adds a hint to an error about a value of the wrong type.
func mistyped(err error) error {
	if strings.Contains(err.Error(), "cannot unmarshal bool") {
		return fmt.Errorf("read it: %w; in YAML, y, n, yes, no, on and off are booleans unless they are quoted", err)
	}
	return fmt.Errorf("read it: %w", err)
}
