function initAudit() {}
function initNeed() {}
function initReduce() {}
