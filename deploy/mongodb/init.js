// Run by init.sh in mongosh. Passwords come from the environment, never as arguments.
const members = [0, 1, 2].map((n) => ({ _id: n, host: `mongodb-${n}.mongodb:27017` }));
const root = encodeURIComponent(process.env.MONGO_ROOT_PASSWORD);
const connect = (hosts, options) => Mongo(`mongodb://root:${root}@${hosts}/?authSource=admin&${options}`);

const first = connect(members[0].host, 'directConnection=true').getDB('admin');
try {
  first.adminCommand({ replSetInitiate: { _id: 'quire', members } });
  print('made the replica set');
} catch (e) {
  if (e.codeName !== 'AlreadyInitialized') throw e;
}

const admin = connect(members.map((m) => m.host).join(','), 'replicaSet=quire&serverSelectionTimeoutMS=120000&w=majority').getDB('admin');
for (const service of ['billing', 'paste', 'lite', 'file']) {
  const user = {
    pwd: process.env[`MONGO_${service.toUpperCase()}_PASSWORD`],
    roles: [{ role: 'readWrite', db: `quire_${service}` }],
  };
  if (!user.pwd) throw new Error(`no password for ${service}`);
  if (admin.getUser(service)) admin.updateUser(service, user);
  else admin.createUser({ user: service, ...user });
  print(`user ${service} is ready`);
}
