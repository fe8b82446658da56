package builder

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Unsaved changes an object to one that a typed client can create in a namespace: without what the
// server says, a UID and a version.
func Unsaved[T metav1.Object](namespace string, object T) T {
	object.SetNamespace(namespace)
	object.SetUID("")
	object.SetResourceVersion("")
	return object
}
