package builder

import "k8s.io/client-go/tools/cache"

// Informer is an informer that only keeps its handler, for the events of a test.
type Informer struct {
	cache.SharedInformer
	cache.ResourceEventHandler
}

// AddEventHandler implements cache.SharedInformer.
func (i *Informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.ResourceEventHandler = handler
	return nil, nil
}
