package v1alpha2

import (
	"cmp"
	"slices"
	"sync"
)

// Parameters has the known classes and parameters of a server. It is safe for concurrent use; objects in it must not
// change any more.
type Parameters struct {
	mutex           sync.RWMutex
	classes         map[string]*ResourceClass
	classParameters parametersOf[*ResourceClassParameters]
	claimParameters parametersOf[*ResourceClaimParameters]
}

// NewParameters returns an empty store.
func NewParameters() *Parameters {
	return &Parameters{
		classes:         make(map[string]*ResourceClass),
		classParameters: newParametersOf[*ResourceClassParameters](),
		claimParameters: newParametersOf[*ResourceClaimParameters](),
	}
}

// SetClass adds or replaces a class.
func (p *Parameters) SetClass(class *ResourceClass) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.classes[class.Name] = class
}

// DeleteClass removes a class by name.
func (p *Parameters) DeleteClass(name string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.classes, name)
}

// SetClassParameters adds or replaces parameters of classes.
func (p *Parameters) SetClassParameters(parameters *ResourceClassParameters) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var from *generatedFrom
	if ref := parameters.GeneratedFrom; ref != nil {
		from = &generatedFrom{*ref, ""}
	}
	p.classParameters.set(objectKey{parameters.Namespace, parameters.Name}, from, parameters)
}

// DeleteClassParameters removes parameters of classes by namespace and name.
func (p *Parameters) DeleteClassParameters(namespace, name string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.classParameters.delete(objectKey{namespace, name})
}

// SetClaimParameters adds or replaces parameters of claims.
func (p *Parameters) SetClaimParameters(parameters *ResourceClaimParameters) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var from *generatedFrom
	if ref := parameters.GeneratedFrom; ref != nil {
		from = &generatedFrom{ref.withoutNamespace(), parameters.Namespace}
	}
	p.claimParameters.set(objectKey{parameters.Namespace, parameters.Name}, from, parameters)
}

// DeleteClaimParameters removes parameters of claims by namespace and name.
func (p *Parameters) DeleteClaimParameters(namespace, name string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.claimParameters.delete(objectKey{namespace, name})
}

// Class returns a class, nil if there is none.
func (p *Parameters) Class(name string) *ResourceClass {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	return p.classes[name]
}

type objectKey struct{ namespace, name string }

// generatedFrom identifies a vendor's object that parameters were generated from. Parameters of claims only match in
// the claim's namespace (within), those of classes everywhere.
type generatedFrom struct {
	ref    ParametersReference
	within string
}

// parametersOf has parameters of one type by their name, and by the object that they were generated from.
type parametersOf[T any] struct {
	objects   map[objectKey]T
	origins   map[objectKey]generatedFrom
	generated map[generatedFrom][]objectKey // sorted
}

func newParametersOf[T any]() parametersOf[T] {
	return parametersOf[T]{
		objects:   make(map[objectKey]T),
		origins:   make(map[objectKey]generatedFrom),
		generated: make(map[generatedFrom][]objectKey),
	}
}

func (p *parametersOf[T]) set(key objectKey, from *generatedFrom, object T) {
	p.delete(key)
	p.objects[key] = object
	if from == nil {
		return
	}
	p.origins[key] = *from
	keys := append(p.generated[*from], key)
	slices.SortFunc(keys, func(a, b objectKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	p.generated[*from] = keys
}

func (p *parametersOf[T]) delete(key objectKey) {
	delete(p.objects, key)
	from, found := p.origins[key]
	if !found {
		return
	}
	delete(p.origins, key)
	keys := slices.DeleteFunc(p.generated[from], func(other objectKey) bool { return other == key })
	if len(keys) == 0 {
		delete(p.generated, from)
	} else {
		p.generated[from] = keys
	}
}

// named returns parameters by their name.
func (p *parametersOf[T]) named(namespace, name string) (object T, found bool) {
	object, found = p.objects[objectKey{namespace, name}]
	return object, found
}

// from returns parameters by the object that they were generated from: the first one by name, if there are several.
func (p *parametersOf[T]) from(from generatedFrom) (object T, found bool) {
	keys := p.generated[from]
	if len(keys) == 0 {
		return object, false
	}
	return p.objects[keys[0]], true
}
