package nodecache

// AnswerBytes is what an answer takes without its places.
const AnswerBytes = answerBytes
